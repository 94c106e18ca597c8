! SPDX-License-Identifier: Apache-2.0
! A learned non-local filter on a grid: attention in a window, trained by its gradients.
!
!     gfortran fortran_nonlocal.f90 $(pkg-config --cflags --libs attile-fortran) -o fortran_nonlocal && ./fortran_nonlocal [FILE]
!
! A particle method gives the density of a shock tube with noise. An average over neighbours takes the noise away and the fronts with it.
! Here every grid point x gets the mean of its neighbours x' in a window, with weights
!     w(x, x') ~ exp(q(x).k(x') + b(x' - x)),    q = wq f, k = wk f,
! f being what is known at a point: its density, and means over 3 and 5 points. That is attention with v = density and with a bias that
! depends on the distance alone. wq, wk and b are learned from pairs of noisy and exact profiles; attile_attention_backward has the gradients.
! Nothing is periodic: the window ends with the grid. The program checks the gradients by finite differences, and that the filter errs less on
! profiles that it has not seen than any plain average. FILE gets one of them in columns.
program fortran_nonlocal
  use attile
  use, intrinsic :: iso_c_binding, only: c_loc
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  implicit none
  integer, parameter :: wp = real64
  integer, parameter :: points = 128, window = 12, head_dim = 4, features = 5, profiles = 24, steps = 120
  integer, parameter :: count_w = head_dim*features, parameters = 2*count_w + 2*window + 1
  real(wp), parameter :: noise = 0.08_wp, rate = 0.08_wp
  type(attile_context) :: ctx
  real(wp) :: theta(parameters), gradient(parameters), mean(parameters), square(parameters)
  real(wp) :: exact(points, profiles), noisy(points, profiles), filtered(points, profiles), averaged(points)
  real(wp), target :: b(1 - points:points - 1), q(head_dim, points, 1, profiles), k(head_dim, points, 1, profiles)
  real(wp), target :: v(1, points, 1, profiles), o(1, points, 1, profiles), lse(points, 1, profiles)
  real(wp), target :: dq(head_dim, points, 1, profiles), dk(head_dim, points, 1, profiles), dv(1, points, 1, profiles)
  real(wp), target :: dout(1, points, 1, profiles), dbias(points, points)
  real(wp) :: loss, error, error_average, error_try
  character(len=512) :: message
  integer :: step, n, half, best, stat

  call set_seed(20)
  call attile_context_create(ctx, stat=stat, errmsg=message)
  call random_number(theta)
  theta = 0.4_wp*(theta - 0.5_wp)
  theta(2*count_w + 1:) = 0
  call make_profiles(exact, noisy)
  if (stat == 0) call check_gradient()

  mean = 0
  square = 0
  do step = 1, steps  ! Adam
    if (stat == 0) call evaluate(theta, loss, gradient)
    if (stat /= 0) exit
    mean = 0.9_wp*mean + 0.1_wp*gradient
    square = 0.99_wp*square + 0.01_wp*gradient**2
    theta = theta - rate*(mean/(1 - 0.9_wp**step))/(sqrt(square/(1 - 0.99_wp**step)) + 1e-9_wp)
    if (step == 1 .or. mod(step, 30) == 0) print '(a, i4, a, f8.5)', 'step ', step, ', error ', sqrt(loss)
  end do

  call make_profiles(exact, noisy)  ! not seen before
  if (stat == 0) call evaluate(theta, loss)
  if (stat /= 0) call stop_with(message)
  error = sqrt(loss)
  best = 0
  error_average = huge(error)
  do half = 0, window
    error_try = 0
    do n = 1, profiles
      error_try = error_try + sum((average(noisy(:, n), half) - exact(:, n))**2)
    end do
    error_try = sqrt(error_try/size(exact))
    if (error_try < error_average) best = half
    error_average = min(error_average, error_try)
  end do
  print '(3(a, f7.4), a, i0, a)', 'new profiles: noise ', sqrt(sum((noisy - exact)**2)/size(exact)), ', learned filter ', error, &
    ', best average ', error_average, ' (', 2*best + 1, ' points)'
  if (.not. error < 0.8_wp*error_average) call stop_with('the learned filter is no better than an average')
  averaged = average(noisy(:, 1), best)
  if (command_argument_count() == 1) call write_columns()

contains

  !! [forward]
  ! The mean square error of the filter, and on request its gradient with respect to the parameters.
  subroutine evaluate(theta, loss, gradient)
    real(wp), intent(in) :: theta(:)
    real(wp), intent(out) :: loss
    real(wp), intent(out), optional :: gradient(:)
    type(attile_attention_args), target :: forward
    type(attile_attention_backward_args) :: args
    real(wp) :: wq(head_dim, features), wk(head_dim, features), f(features, points)
    integer :: n, i, distance

    wq = reshape(theta(:count_w), shape(wq))
    wk = reshape(theta(count_w + 1:2*count_w), shape(wk))
    b = 0
    b(-window:window) = theta(2*count_w + 1:)
    do n = 1, profiles
      f = features_of(noisy(:, n))
      q(:, :, 1, n) = matmul(wq, f)
      k(:, :, 1, n) = matmul(wk, f)
      v(1, :, 1, n) = noisy(:, n)
    end do

    call attile_attention_init(forward)
    forward%q = attile_tensor_of(q)
    forward%k = attile_tensor_of(k)
    forward%v = attile_tensor_of(v)
    forward%o = attile_tensor_of(o)
    forward%lse = attile_tensor_of(lse)
    forward%scale = 1
    forward%mask = ATTILE_MASK_WINDOW_TOP_LEFT
    forward%window_left = window
    forward%window_right = window
    ! Row i and key j find b(j - i): one step along the keys is one element on, one step along the rows is one back. No matrix is made.
    forward%bias = attile_tensor_of(c_loc(b(0)), ATTILE_F64, [points, points], [1_int64, -1_int64])
    call attile_attention(ctx, forward, stat, message)
    filtered = o(1, :, 1, :)
    loss = sum((filtered - exact)**2)/size(exact)
    if (stat /= 0 .or. .not. present(gradient)) return
    !! [forward]

    !! [backward]
    dout(1, :, 1, :) = 2*(filtered - exact)/size(exact)
    call attile_attention_backward_init(args)
    args%forward = c_loc(forward)
    args%dout = attile_tensor_of(dout)
    args%dq = attile_tensor_of(dq)
    args%dk = attile_tensor_of(dk)
    args%dv = attile_tensor_of(dv)
    args%dbias = attile_tensor_of(dbias)  ! summed over the profiles, which share the bias
    call attile_attention_backward(ctx, args, stat, message)

    wq = 0
    wk = 0
    do n = 1, profiles
      f = features_of(noisy(:, n))
      wq = wq + matmul(dq(:, :, 1, n), transpose(f))
      wk = wk + matmul(dk(:, :, 1, n), transpose(f))
    end do
    gradient(:count_w) = reshape(wq, [count_w])
    gradient(count_w + 1:2*count_w) = reshape(wk, [count_w])
    gradient(2*count_w + 1:) = 0
    do i = 1, points
      do distance = max(-window, 1 - i), min(window, points - i)
        n = 2*count_w + window + 1 + distance
        gradient(n) = gradient(n) + dbias(i + distance, i)
      end do
    end do
    !! [backward]
  end subroutine evaluate

  ! Along a random direction, the gradient is what differences of the error are.
  subroutine check_gradient()
    real(wp), parameter :: small = 1e-5_wp
    real(wp) :: direction(parameters), ahead, behind, slope, expected
    call random_number(direction)
    direction = direction - 0.5_wp
    call evaluate(theta, loss, gradient)
    if (stat == 0) call evaluate(theta + small*direction, ahead)
    if (stat == 0) call evaluate(theta - small*direction, behind)
    if (stat /= 0) return
    slope = dot_product(gradient, direction)
    expected = (ahead - behind)/(2*small)
    print '(2(a, es13.6))', 'gradient ', slope, ', by differences ', expected
    if (.not. abs(slope - expected) <= 1e-6_wp*abs(expected)) call stop_with('the gradient is not that of the error')
  end subroutine check_gradient

  pure function average(u, half) result(means)
    real(wp), intent(in) :: u(:)
    integer, intent(in) :: half
    real(wp) :: means(size(u))
    integer :: i, first, last
    do i = 1, size(u)
      first = max(1, i - half)
      last = min(size(u), i + half)
      means(i) = sum(u(first:last))/(last - first + 1)
    end do
  end function average

  pure function features_of(u) result(f)
    real(wp), intent(in) :: u(:)
    real(wp) :: f(features, size(u))
    f(1, :) = 1
    f(2, :) = u
    f(3, :) = average(u, 1)
    f(4, :) = average(u, 2)
    f(5, :) = f(4, :)**2  ! with it the weights can fall with the square of a difference in density
  end function features_of

  ! Densities as a shock tube has them: constant states, fronts between them, and a rarefaction, in which the density falls linearly.
  subroutine make_profiles(exact, noisy)
    real(wp), intent(out) :: exact(:, :), noisy(:, :)
    real(wp) :: r(4), levels(4), u(points, 12)
    integer :: n, i, at(4)
    do n = 1, size(exact, 2)
      call random_number(r)
      call random_number(levels)
      levels = 0.2_wp + 0.8_wp*levels
      at = int([10 + 20*r(1), 36 + 16*r(2), 64 + 16*r(3), 92 + 22*r(4)])
      exact(:at(1), n) = levels(1)
      do i = at(1) + 1, at(2)
        exact(i, n) = levels(1) + (levels(2) - levels(1))*real(i - at(1), wp)/(at(2) - at(1))
      end do
      exact(at(2) + 1:at(3), n) = levels(2)
      exact(at(3) + 1:at(4), n) = levels(3)
      exact(at(4) + 1:, n) = levels(4)
      call random_number(u)
      noisy(:, n) = exact(:, n) + noise*(sum(u, 2) - 6)  ! nearly normal: twelve uniform numbers
    end do
  end subroutine make_profiles

  subroutine set_seed(number)
    integer, intent(in) :: number
    integer :: size_of_seed, i
    call random_seed(size=size_of_seed)
    call random_seed(put=[(number + 37*i, i=1, size_of_seed)])
  end subroutine set_seed

  subroutine write_columns()
    character(len=512) :: path
    integer :: unit, i
    call get_command_argument(1, path)
    open (newunit=unit, file=trim(path), action='write', status='replace', iostat=stat, iomsg=message)
    if (stat /= 0) call stop_with(message)
    write (unit, '(a)') 'point exact noisy averaged filtered'
    do i = 1, points
      write (unit, '(i0, 4(1x, f8.5))') i, exact(i, 1), noisy(i, 1), averaged(i), filtered(i, 1)
    end do
    close (unit)
  end subroutine write_columns

  subroutine stop_with(why)
    character(len=*), intent(in) :: why
    write (error_unit, '(2a)') 'fortran_nonlocal: ', trim(why)
    stop 1, quiet=.true.
  end subroutine stop_with
end program fortran_nonlocal
