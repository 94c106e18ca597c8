! SPDX-License-Identifier: Apache-2.0
! Attention and its gradients against plain loops in double precision: every optional argument, ranks 2 to 4, sections, merging.
program fortran_attention_test
  use attile
  use fortran_naive
  use fortran_test_tools
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32
  implicit none (type, external)
  integer, parameter :: D = 8, DV = 5, LQ = 7, LK = 9, HQ = 4, HKV = 2, NB = 3
  type(attile_context) :: ctx
  real(real64) :: q(D, LQ, HQ, NB), k(D, LK, HKV, NB), v(DV, LK, HKV, NB), o(DV, LQ, HQ, NB), lse(LQ, HQ, NB)
  real(real64) :: want_o(DV, LQ, HQ, NB), want_lse(LQ, HQ, NB), added(LK, LQ, HQ, NB), no_sinks(HQ), scale
  real(real64) :: dout(DV, LQ, HQ, NB), the_bias(LK, LQ), the_sinks(HQ)
  integer :: i, j, h, b
  call attile_context_create(ctx)
  call fill(q)
  call fill(k)
  call fill(v)
  no_sinks = minus_infinity()
  scale = 1/sqrt(real(D, real64))
  call plain()
  call masks()
  call features()
  call cache()
  call packed()
  call sections_and_ranks()
  call merging()
  call gradients()
  call finish()

contains

  subroutine clear()
    o = nan()
    lse = nan()
    added = 0
  end subroutine clear

  ! Compares with the definition, given what the variations under test add to the scores.
  subroutine compare(what, sinks, scaled, softcap)
    character(len=*), intent(in) :: what
    real(real64), intent(in), optional :: sinks(:), scaled, softcap
    real(real64) :: all_sinks(HQ), the_scale, the_softcap
    all_sinks = no_sinks
    the_scale = scale
    the_softcap = 0
    if (present(sinks)) all_sinks = sinks
    if (present(scaled)) the_scale = scaled
    if (present(softcap)) the_softcap = softcap
    call naive_attention(q, k, v, added, all_sinks, the_scale, the_softcap, want_o, want_lse)
    call check(all(abs(o - want_o) <= 1e-13_real64), what//': o')
    call check(all(abs(lse - want_lse) <= 1e-13_real64 .or. lse == want_lse), what//': lse')
  end subroutine compare

  subroutine plain()
    real(real32) :: o4(DV, LQ, HQ, NB)
    call clear()
    call attile_attention(ctx, q, k, v, o, lse)
    call compare('plain')
    o4 = real(nan(), real32)
    call attile_attention(ctx, real(q, real32), real(k, real32), real(v, real32), o4)
    call check(all(abs(o4 - want_o) <= 1e-5_real64), 'real32, without lse')
    call clear()
    call attile_attention(ctx, q, k, v, o, lse, scale=0.7_real64, softcap=0.9_real64)
    call compare('scale and softcap', scaled=0.7_real64, softcap=0.9_real64)
  end subroutine plain

  subroutine masks()
    call clear()
    do j = 1, LK
      do i = 1, LQ
        if (j > i) added(j, i, :, :) = minus_infinity()
      end do
    end do
    call attile_attention(ctx, q, k, v, o, lse, mask=ATTILE_MASK_CAUSAL_TOP_LEFT)
    call compare('causal, top left')
    call clear()
    do j = 1, LK
      do i = 1, LQ
        if (j > i + LK - LQ) added(j, i, :, :) = minus_infinity()
      end do
    end do
    call attile_attention(ctx, q, k, v, o, lse, mask=ATTILE_MASK_CAUSAL_BOTTOM_RIGHT)
    call compare('causal, bottom right')
    call clear()
    do j = 1, LK
      do i = 1, LQ
        if (j < i - 2 .or. j > i + 1) added(j, i, :, :) = minus_infinity()
      end do
    end do
    call attile_attention(ctx, q, k, v, o, lse, mask=ATTILE_MASK_WINDOW_TOP_LEFT, window_left=2_int64, window_right=1_int64)
    call compare('window')
  end subroutine masks

  subroutine features()
    real(real64) :: bias(LK, LQ, HQ, NB), slopes(HQ), sinks(HQ)
    logical(c_bool) :: allowed(LK, LQ), blocks(1, 1, HQ), tree(2, LQ)
    integer(int32) :: lengths(NB), starts(NB), offsets(NB)
    call fill(bias)
    call clear()
    added = bias
    call attile_attention(ctx, q, k, v, o, lse, bias=bias)
    call compare('bias')
    call clear()
    added = spread(spread(bias(:, :, 1, 2), 3, HQ), 4, NB)
    call attile_attention(ctx, q, k, v, o, lse, bias=bias(:, :, 1, 2))
    call compare('bias of one matrix for all heads and batches')
    call clear()
    added = spread(bias(:, :, :, 1), 4, NB)
    call attile_attention(ctx, q, k, v, o, lse, bias=bias(:, :, :, 1:1))
    call compare('bias with an extent of 1')

    allowed = bias(:, :, 1, 1) > 0
    allowed(:, 3) = .false.
    call clear()
    added = spread(spread(merge(0.0_real64, minus_infinity(), logical(allowed)), 3, HQ), 4, NB)
    call attile_attention(ctx, q, k, v, o, lse, allowed=allowed)
    call compare('boolean mask with a row that sees nothing')
    call check(all(o(:, 3, :, :) == 0), 'a row that sees nothing gives 0')

    call fill(slopes)
    call clear()
    do i = 1, LQ
      do j = 1, LK
        do h = 1, HQ
          added(j, i, h, :) = -slopes(h)*abs(j - i - (LK - LQ))
        end do
      end do
    end do
    call attile_attention(ctx, q, k, v, o, lse, alibi_slopes=slopes)
    call compare('ALiBi')

    call fill(sinks)
    call clear()
    call attile_attention(ctx, q, k, v, o, lse, sinks=sinks)
    call compare('sinks', sinks=sinks)

    lengths = [LK, 0, 4]
    call clear()
    do b = 1, NB
      added(lengths(b) + 1:, :, :, b) = minus_infinity()
    end do
    call attile_attention(ctx, q, k, v, o, lse, key_lengths=lengths)
    call compare('key lengths')

    starts = [2, 0, LK]
    call clear()
    do b = 1, NB
      added(:starts(b), :, :, b) = minus_infinity()
    end do
    call attile_attention(ctx, q, k, v, o, lse, key_starts=starts)
    call compare('left padding')

    offsets = [1, -3, LK]
    call clear()
    do b = 1, NB
      do i = 1, LQ
        added(max(i + offsets(b) + 1, 1):, i, :, b) = minus_infinity()
      end do
    end do
    call attile_attention(ctx, q, k, v, o, lse, mask=ATTILE_MASK_CAUSAL_TOP_LEFT, causal_offset=offsets)
    call compare('offsets of the diagonal')

    blocks = .true.
    blocks(1, 1, 2) = .false.
    call clear()
    added(:, :, 2, :) = minus_infinity()
    call attile_attention(ctx, q, k, v, o, lse, block_mask=blocks)
    call compare('mask of blocks')

    lengths = [LK, 3, 1]
    tree = reshape([(modulo(i, 3) > 0, i=1, 2*LQ)], [2, LQ])
    call clear()
    do b = 1, NB
      added(lengths(b) + 1:, :, :, b) = minus_infinity()
      do j = max(lengths(b) - 1, 1), lengths(b)
        do i = 1, LQ
          if (.not. tree(j - lengths(b) + 2, i)) added(j, i, :, b) = minus_infinity()
        end do
      end do
    end do
    call attile_attention(ctx, q, k, v, o, lse, key_lengths=lengths, tree_mask=tree)
    call compare('mask of a tree')
  end subroutine features

  ! Keys and values of 8 bits: a factor for each token, for each column, and none; a section; and a wrong shape.
  subroutine cache()
    integer(int8) :: k8(2*D, LK, HKV, NB), v8(DV, LK, HKV, NB)
    real(real32) :: k_scale(1, LK, HKV, NB), v_scale(DV), o4(DV, LQ, HQ, NB), lse4(LQ, HQ, NB)
    real(real64) :: keys(D, LK, HKV, NB), values(DV, LK, HKV, NB), no_bias(LK, LQ, HQ, NB)
    character(len=200) :: why
    integer :: stat
    k8 = int(reshape([(modulo(37*i, 255) - 127, i=1, size(k8))], shape(k8)), int8)
    v8 = int(reshape([(modulo(91*i, 255) - 127, i=1, size(v8))], shape(v8)), int8)
    k_scale = reshape([(real(i, real32)/4096, i=1, size(k_scale))], shape(k_scale))
    v_scale = [(real(i, real32)/128, i=1, DV)]
    no_bias = 0
    keys = k8(1:2*D:2, :, :, :)*real(spread(k_scale(1, :, :, :), 1, D), real64)
    values = v8*real(spread(spread(spread(v_scale, 2, LK), 3, HKV), 4, NB), real64)
    o4 = real(nan(), real32)
    lse4 = real(nan(), real32)
    call attile_attention(ctx, real(q, real32), k8(1:2*D:2, :, :, :), v8, o4, lse4, k_scale=k_scale, v_scale=v_scale)
    call naive_attention(real(real(q, real32), real64), keys, values, no_bias, no_sinks, scale, 0.0_real64, want_o, want_lse)
    call check(all(abs(o4 - want_o) <= 1e-5_real64), 'keys and values of 8 bits: o')
    call check(all(abs(lse4 - want_lse) <= 1e-5_real64), 'keys and values of 8 bits: lse')
    o4 = real(nan(), real32)
    call attile_attention(ctx, real(q, real32), k8(1:2*D:2, :, :, :), v8, o4, k_scale=k_scale, mask=ATTILE_MASK_CAUSAL_TOP_LEFT)
    call check(all(o4(:, 1, 1, 1) == v8(:, 1, 1, 1)), 'the first row sees one value, without factors')
    call attile_attention(ctx, real(q, real32), k8(1:2*D:2, :, :, :), v8, o4, v_scale=v_scale(:3), stat=stat, errmsg=why)
    call check(stat == ATTILE_ERROR_SHAPE_MISMATCH .and. index(why, 'v_scale.shape[0] is 3') > 0, 'a wrong shape of factors')
    call rows_of_integers(k8(1:2*D:2, :, :, :), keys, v8, values, k_scale, v_scale)
  end subroutine cache

  ! Queries of 8 bits over such a cache: a factor for each token, for all numbers, and a wrong shape.
  subroutine rows_of_integers(k8, keys, v8, values, k_scale, v_scale)
    integer(int8), intent(in) :: k8(:, :, :, :), v8(:, :, :, :)
    real(real64), intent(in) :: keys(:, :, :, :), values(:, :, :, :)
    real(real32), intent(in) :: k_scale(:, :, :, :), v_scale(:)
    integer(int8) :: q8(D, LQ, HQ, NB)
    real(real32) :: q_scale(1, LQ, HQ, NB), o4(DV, LQ, HQ, NB), lse4(LQ, HQ, NB)
    real(real64) :: no_bias(LK, LQ, HQ, NB)
    character(len=200) :: why
    integer :: stat
    q8 = int(reshape([(modulo(53*i, 255) - 127, i=1, size(q8))], shape(q8)), int8)
    q_scale = reshape([(real(i, real32)/8192, i=1, size(q_scale))], shape(q_scale))
    no_bias = 0
    o4 = real(nan(), real32)
    lse4 = real(nan(), real32)
    call attile_attention(ctx, q8, k8, v8, o4, lse4, k_scale, v_scale, q_scale)
    call naive_attention(q8*real(spread(q_scale(1, :, :, :), 1, D), real64), keys, values, no_bias, no_sinks, scale, 0.0_real64, &
      want_o, want_lse)
    call check(all(abs(o4 - want_o) <= 1e-4_real64), 'queries of 8 bits: o')
    call check(all(abs(lse4 - want_lse) <= 1e-4_real64), 'queries of 8 bits: lse')
    o4 = real(nan(), real32)
    call attile_attention(ctx, q8, k8, v8, o4, q_scale=q_scale(:1, 1, 1, 1), mask=ATTILE_MASK_CAUSAL_TOP_LEFT)
    call check(all(o4(:, 1, 1, 1) == v8(:, 1, 1, 1)), 'the first row of 8 bits sees one value')
    call attile_attention(ctx, q8, k8, v8, o4, q_scale=v_scale(:3), stat=stat, errmsg=why)
    call check(stat == ATTILE_ERROR_SHAPE_MISMATCH .and. index(why, 'q_scale.shape[0] is 3') > 0, 'a wrong shape of factors of q')
  end subroutine rows_of_integers

  ! The batch's entries one behind another, of lengths 3, 0 and LQ, and of as many keys.
  subroutine packed()
    real(real64) :: q1(D, 3 + LQ, HQ), k1(D, 3 + LQ, HKV), v1(DV, 3 + LQ, HKV), o1(DV, 3 + LQ, HQ), lse1(3 + LQ, HQ)
    integer(int32) :: starts(4)
    starts = [0, 3, 3, 3 + LQ]
    q1(:, :3, :) = q(:, :3, :, 1)
    q1(:, 4:, :) = q(:, :, :, 3)
    k1(:, :3, :) = k(:, :3, :, 1)
    k1(:, 4:, :) = k(:, :LQ, :, 3)
    v1(:, :3, :) = v(:, :3, :, 1)
    v1(:, 4:, :) = v(:, :LQ, :, 3)
    o1 = nan()
    lse1 = nan()
    call attile_attention(ctx, q1, k1, v1, o1, lse1, cu_len_q=starts, cu_len_k=starts, max_len_q=int(LQ, int64), &
      max_len_k=int(LQ, int64), mask=ATTILE_MASK_CAUSAL_TOP_LEFT)
    call clear()
    do j = 1, LK
      do i = 1, LQ
        if (j > i) added(j, i, :, :) = minus_infinity()
      end do
    end do
    call naive_attention(q, k, v, added, no_sinks, scale, 0.0_real64, want_o, want_lse)
    call check(all(abs(o1(:, :3, :) - want_o(:, :3, :, 1)) <= 1e-13_real64), 'packed, first sequence')
    call check(all(abs(o1(:, 4:, :) - want_o(:, :, :, 3)) <= 1e-13_real64), 'packed, last sequence')
    call check(all(abs(lse1(4:, :) - want_lse(:, :, 3)) <= 1e-13_real64), 'packed, lse')
  end subroutine packed

  subroutine sections_and_ranks()
    real(real64) :: storage(D, HQ, LQ, NB), wide(2*DV, LQ + 4, HQ, NB), lines(LQ, HQ, 2*NB)
    call clear()
    call attile_attention(ctx, q, k, v, o, lse)
    call compare('for sections')
    ! The heads inside the rows, as models often keep them: one head at a time is a section.
    do h = 1, HQ
      storage(:, h, :, :) = q(:, :, h, :)
    end do
    wide = nan()
    lines = nan()
    do h = 1, HQ
      call attile_attention(ctx, storage(:, h, :, 2), k(:, :, (h + 1)/2, 2), v(:, :, (h + 1)/2, 2), &
        wide(2*DV:2:-2, LQ + 2:3:-1, h, 2), lines(LQ:1:-1, h, 4))
      call check(all(abs(wide(2*DV:2:-2, LQ + 2:3:-1, h, 2) - want_o(:, :, h, 2)) <= 1e-13_real64), 'rank 2, sections')
      call check(all(abs(lines(LQ:1:-1, h, 4) - want_lse(:, h, 2)) <= 1e-13_real64), 'rank 1 lse, backwards')
    end do
    call check(count(wide == wide) == DV*LQ*HQ, 'nothing around the sections is written')
    o = nan()
    call attile_attention(ctx, q(:, :, :, 3), k(:, :, :, 3), v(:, :, :, 3), o(:, :, :, 3), lse(:, :, 3))
    call check(all(abs(o(:, :, :, 3) - want_o(:, :, :, 3)) <= 1e-13_real64), 'rank 3')
    o = nan()
    call attile_attention(ctx, q(D:1:-1, LQ:1:-1, :, NB:1:-1), k(D:1:-1, :, :, NB:1:-1), v(:, :, :, NB:1:-1), &
      o(:, LQ:1:-1, :, NB:1:-1))
    call check(all(abs(o - want_o) <= 1e-13_real64), 'rank 4, backwards')
    call attile_attention(ctx, q(:, 1:0, :, :), k, v, o(:, 1:0, :, :))
    call attile_attention(ctx, q, k(:, 1:0, :, :), v(:, 1:0, :, :), o, lse)
    call check(all(o == 0) .and. all(lse == minus_infinity()), 'no keys at all')
  end subroutine sections_and_ranks

  subroutine merging()
    real(real64) :: o_parts(DV, LQ, HQ, NB, 3), lse_parts(LQ, HQ, NB, 3)
    o_parts = nan()
    lse_parts = nan()
    call attile_attention(ctx, q, k(:, 1:4, :, :), v(:, 1:4, :, :), o_parts(:, :, :, :, 1), lse_parts(:, :, :, 1))
    call attile_attention(ctx, q, k(:, 1:0, :, :), v(:, 1:0, :, :), o_parts(:, :, :, :, 2), lse_parts(:, :, :, 2))
    call attile_attention(ctx, q, k(:, 5:, :, :), v(:, 5:, :, :), o_parts(:, :, :, :, 3), lse_parts(:, :, :, 3))
    call clear()
    call attile_attention_merge(ctx, o_parts, lse_parts, o, lse)
    call compare('merged')
    call clear()
    call attile_attention_merge(ctx, o_parts(:, :, :, :, 3:1:-1), lse_parts(:, :, :, 3:1:-1), o)
    call check(all(abs(o - want_o) <= 1e-13_real64), 'merged backwards, without lse')
    call attile_attention_merge(ctx, o_parts(:, :, 2, 1, :), lse_parts(:, 2, 1, :), o(:, :, 2, 1), lse(:, 2, 1))
    call check(all(abs(o - want_o) <= 1e-13_real64), 'merged, rank 2')
  end subroutine merging

  ! The gradients of sum(o * dout) against central differences along one number of each argument.
  subroutine gradients()
    real(real64) :: dq(D, LQ, HQ, NB), dk(D, LK, HKV, NB), dv_(DV, LK, HKV, NB), dbias(LK, LQ), dsinks(HQ)
    call fill(dout)
    call fill(the_bias)
    call fill(the_sinks)
    call clear()
    call attile_attention(ctx, q, k, v, o, lse, mask=ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, bias=the_bias, sinks=the_sinks)
    dq = nan()
    dk = nan()
    dv_ = nan()
    dbias = nan()
    dsinks = nan()
    call attile_attention_backward(ctx, q, k, v, o, lse, dout, dq, dk, dv_, dbias, dsinks, mask=ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, &
      bias=the_bias, sinks=the_sinks)
    call check(abs(dq(3, 5, 2, 1) - slope('q')) <= 1e-7_real64, 'dq')
    call check(abs(dk(2, 4, 2, 3) - slope('k')) <= 1e-7_real64, 'dk')
    call check(abs(dv_(1, 6, 1, 2) - slope('v')) <= 1e-7_real64, 'dv')
    call check(abs(dbias(3, 2) - slope('bias')) <= 1e-7_real64, 'dbias')
    call check(abs(dsinks(4) - slope('sinks')) <= 1e-7_real64, 'dsinks')
  end subroutine gradients

  real(real64) function slope(which)
    character(len=*), intent(in) :: which
    real(real64), parameter :: STEP = 1e-5_real64
    call bump(which, STEP)
    slope = total()
    call bump(which, -2*STEP)
    slope = (slope - total())/(2*STEP)
    call bump(which, STEP)
  end function slope

  subroutine bump(which, amount)
    character(len=*), intent(in) :: which
    real(real64), intent(in) :: amount
    select case (which)
    case ('q')
      q(3, 5, 2, 1) = q(3, 5, 2, 1) + amount
    case ('k')
      k(2, 4, 2, 3) = k(2, 4, 2, 3) + amount
    case ('v')
      v(1, 6, 1, 2) = v(1, 6, 1, 2) + amount
    case ('bias')
      the_bias(3, 2) = the_bias(3, 2) + amount
    case default
      the_sinks(4) = the_sinks(4) + amount
    end select
  end subroutine bump

  real(real64) function total()
    call attile_attention(ctx, q, k, v, o, mask=ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, bias=the_bias, sinks=the_sinks)
    total = sum(o*dout)
  end function total
end program fortran_attention_test
