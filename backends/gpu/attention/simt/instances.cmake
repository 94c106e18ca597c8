# The instances of the SIMT attention kernel: for each width the configuration under masks, that of plain scores (but on AMD), and that where more
# is done to them. The configurations, with their budget and bound, are attention/simt/configs.h. kShare: of the multiply-add roof, measured on a
# full device at long sequences.
attile_gpu_family(attention/simt/instances.h
  INCLUDE attention/simt/kernels.h
  FROM attention/simt/instances.cuh
  KERNEL AttentionTileKernel BY attention_tile_instance
  FUNCTION attention_@name@ NAME attention_@name@
  STRUCT AttentionTile TABLE kAttentionTile)

# Fastest first where several fit; of those that fit, the narrowest that hold the head are compared by estimated time.
attile_gpu_instance(cols32 FILE cols32 Masked=Attention32 Plain=Attention32 Modified=Attention32Modified kShare=0.66)
attile_gpu_instance(cols32_short FILE cols32 Masked=Attention32Short Plain=Attention32Short Modified=Attention32Modified kShare=0.63)
attile_gpu_instance(cols40 FILE cols64 Masked=Attention40 Plain=Attention40 Modified=Spared<Attention40> kShare=0.6)
attile_gpu_instance(cols48 FILE cols64 Masked=Attention48 Plain=Attention48 Modified=Spared<Attention48> kShare=0.62)
attile_gpu_instance(cols64_dense FILE cols64 BY attention_tile_plain_instance Plain=Attention64Dense kShare=0.74)
attile_gpu_instance(cols64 FILE cols64 BY attention_tile_single_instance
  Masked=Attention64 Plain=Attention64 Modified=Spared<Attention64> kShare=0.69)
attile_gpu_instance(cols80 FILE cols128 Masked=Attention80 Plain=Attention80 Modified=Attention80 kShare=0.55)
attile_gpu_instance(cols96 FILE cols128 Masked=Attention96 Plain=Attention96 Modified=Attention96 kShare=0.58)
attile_gpu_instance(cols112 FILE cols128 Masked=Attention112 Plain=Attention112 Modified=Attention112 kShare=0.6)
attile_gpu_instance(cols128 FILE cols128 BY attention_tile_single_instance
  Masked=Attention128 Plain=Attention128 Modified=Attention128 kShare=0.63)
attile_gpu_instance(cols192 FILE cols256 Masked=Attention192 Plain=Attention192 Modified=Attention192 kShare=0.55)
attile_gpu_instance(cols256 FILE cols256 Masked=Attention256 Plain=Attention256Plain Modified=Attention256 kShare=0.58)
