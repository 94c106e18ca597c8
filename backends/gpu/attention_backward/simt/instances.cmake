# The instances of the SIMT kernel of attention's gradients: for each width the configuration of scores under a mask alone, and that where more is
# done to them. The configurations, with their budget and bound, are attention_backward/simt/configs.h. kShare: of the multiply-add roof.
attile_gpu_family(attention_backward/simt/instances.h
  INCLUDE attention_backward/simt/kernels.h
  FROM attention_backward/simt/instances.cuh
  KERNEL AttentionBackwardTileKernel BY attention_backward_instance
  FUNCTION attention_backward_@name@ NAME attention_backward_@name@
  STRUCT AttentionBackward TABLE kAttentionBackward)

# The narrowest that holds the head is taken.
attile_gpu_instance(cols32 Plain=Backward32Plain Modified=Backward32Half kShare=0.5)
attile_gpu_instance(cols64 Plain=Backward64Plain Modified=Backward64Half kShare=0.5)
attile_gpu_instance(cols96 Plain=Backward96Plain Modified=Backward96Modified kShare=0.5)
attile_gpu_instance(cols128 Plain=Backward128Plain Modified=Backward128Modified kShare=0.5)
attile_gpu_instance(cols256 Plain=Backward256Plain Modified=Backward256Plain kShare=0.43)
