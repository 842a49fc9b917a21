package epoll_test

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sluice/l4/epoll"
)

// A pipe is as large as it says, and neither end of it blocks.
func TestPipesAreLarge(t *testing.T) {
	r := newRig(t)
	pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
	defer pipes.Close()
	p := pipes.Take()
	if p == nil {
		t.Skip("the system gives no large pipes")
	}
	defer pipes.Give(p)
	if size, err := unix.FcntlInt(uintptr(p.R), unix.F_GETPIPE_SZ, 0); size != p.Size || p.Size < 64<<10 || err != nil {
		t.Errorf("%d bytes, %v, said %d", size, err, p.Size)
	}
	if _, err := unix.Read(p.R, make([]byte, 1)); err != syscall.EAGAIN {
		t.Errorf("read: %v", err)
	}
	for n, err := 0, error(nil); err == nil; p.Held += n {
		if n, err = unix.Write(p.W, make([]byte, 4096)); err != nil && err != syscall.EAGAIN {
			t.Errorf("write: %v", err)
		}
		n = max(n, 0)
	}
	if p.Held != p.Size {
		t.Errorf("%d bytes of %d fit", p.Held, p.Size)
	}
}

// small makes pipes that stay at size, as those of a user who has too many.
func small(c *epoll.Calls, size int) (opened *int) {
	opened = new(int)
	pipe := c.Pipe
	c.Pipe = func() (int, int, syscall.Errno) {
		*opened++
		return pipe()
	}
	c.SetPipeSize = func(int, int) (int, syscall.Errno) { return 0, syscall.EPERM }
	pipeSize := c.PipeSize
	c.PipeSize = func(fd int) (int, syscall.Errno) {
		if _, errno := pipeSize(fd); errno != 0 {
			return 0, errno
		}
		return size, 0
	}
	return opened
}

// Small pipes are refused, and not asked for again for a while.
func TestSmallPipesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, broken := interrupted()
		opened := small(&calls, 8<<10)
		r := newRigOf(t, calls)
		pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
		defer pipes.Close()
		for range 3 {
			if p := pipes.Take(); p != nil {
				t.Fatalf("took %+v", p)
			}
		}
		if *opened != 2 || broken["PipeSize"] != 1 { // once for the signal
			t.Errorf("%d pipes were opened in a second, %d broken off", *opened, broken["PipeSize"])
		}
		time.Sleep(time.Second) // of a clock that is not real
		pipes.Take()
		if *opened != 4 {
			t.Errorf("%d pipes were opened in two seconds", *opened)
		}
	})
}

// A pipe that cannot be made larger is good enough as pipes come.
func TestPipesOfTheUsualSizeAreTaken(t *testing.T) {
	calls := epoll.System()
	small(&calls, 64<<10)
	r := newRigOf(t, calls)
	pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
	defer pipes.Close()
	p := pipes.Take()
	if p == nil || p.Size != 64<<10 {
		t.Fatalf("took %+v", p)
	}
	pipes.Give(p)
}

// A process out of descriptors has no pipe, and loses none of its budget.
func TestNoDescriptorsForPipes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := epoll.System()
		pipe, tries := calls.Pipe, 0
		calls.Pipe = func() (int, int, syscall.Errno) {
			if tries++; tries > 100 {
				return pipe()
			}
			return -1, -1, syscall.EMFILE
		}
		r := newRigOf(t, calls)
		pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
		defer pipes.Close()
		for range 100 {
			if taken := take(pipes, 2); len(taken) != 0 {
				t.Fatalf("took %+v", taken[0])
			}
			time.Sleep(time.Second)
		}
		if tries != 100 {
			t.Errorf("%d tries in 100 seconds", tries)
		}
		p := pipes.Take()
		if p == nil {
			t.Fatal("the budget is gone")
		}
		pipes.Give(p)
	})
}

// take takes pipes until there are n or no more.
func take(s *epoll.Pipes, n int) (taken []*epoll.Pipe) {
	for range n {
		if p := s.Take(); p != nil {
			taken = append(taken, p)
		}
	}
	return taken
}

func give(s *epoll.Pipes, taken []*epoll.Pipe) {
	for _, p := range taken {
		s.Give(p)
	}
}

// All loops share one budget, and a pipe that is given back is anybody's.
func TestPipesHaveABudget(t *testing.T) {
	r := newRig(t)
	budget := epoll.NewPipeBudget()
	one, other := epoll.NewPipes(r.Kernel, budget), epoll.NewPipes(r.Kernel, budget)
	taken := take(one, 30)
	others := take(other, 30)
	if len(taken) != 30 || len(others) != 18 {
		t.Errorf("%d and %d pipes, want 30 and 18", len(taken), len(others))
	}
	if other.Take() != nil {
		t.Error("took one too many")
	}
	one.Give(taken[0])
	p := other.Take()
	if p == nil {
		t.Fatal("what one loop gave back is not to be had for another")
	}
	other.Give(p)
	give(one, taken[1:])
	give(other, others)
	one.Close()
	other.Close()
	again := take(one, 100)
	if len(again) != 48 {
		t.Errorf("%d pipes at the end, want 48", len(again))
	}
	give(one, again)
	one.Close()
}

// A few empty pipes are kept; one with something in it is not.
func TestPipesThatAreKept(t *testing.T) {
	r := newRig(t)
	pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
	before := descriptors(t)
	give(pipes, take(pipes, 10))
	if kept := descriptors(t) - before; kept != 2*4 {
		t.Errorf("%d descriptors are kept, want 8", kept)
	}
	pipes.Close()
	p := pipes.Take()
	if n, err := unix.Write(p.W, []byte("left over")); err != nil {
		t.Fatal(err)
	} else {
		p.Held += n
	}
	pipes.Give(p)
	if kept := descriptors(t) - before; kept != 0 {
		t.Errorf("%d descriptors of a pipe that is not empty", kept)
	}
	p = pipes.Take()
	pipes.Give(p)
	if pipes.Take() != p {
		t.Error("another pipe than the one that is kept")
	}
	pipes.Give(p)
	pipes.Close()
}

func TestBudgetIsForManyLoops(t *testing.T) {
	newRig(t)
	budget := epoll.NewPipeBudget()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			pipes := epoll.NewPipes(epoll.NewKernel(epoll.System()), budget)
			defer pipes.Close()
			for i := range 50 {
				give(pipes, take(pipes, i%15))
			}
		})
	}
	wg.Wait()
	pipes := epoll.NewPipes(epoll.NewKernel(epoll.System()), budget)
	all := take(pipes, 100)
	if len(all) != 48 {
		t.Errorf("%d pipes are to be had at the end, want 48", len(all))
	}
	give(pipes, all)
	pipes.Close()
}

// An ordinary user gets large pipes until the system's limit, then small ones,
// which are refused.
func TestPipesOfAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be a user who has no pipes yet")
	}
	r := newRig(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread is that user's, and ends with the goroutine
		user := uintptr(30_000 + os.Getpid()%30_000)
		if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, user, user, user); errno != 0 {
			done <- errno
			return
		}
		done <- exhaust(r)
	}()
	if err := <-done; err != nil {
		t.Skip(err)
	}
}

// exhaust opens pipes up to the limit of the user, then wants none to be taken
// until some are closed.
func exhaust(r rig) error {
	var fds [2000]int
	n := 0
	closeFrom := func(first int) {
		for ; n > first; n-- {
			unix.Close(fds[n-1])
		}
	}
	defer closeFrom(0)
	for large := true; large; n += 2 {
		if n == len(fds) {
			return errors.New("this user has no limit")
		}
		if err := unix.Pipe2(fds[n:n+2], unix.O_CLOEXEC); err != nil {
			return err
		}
		_, err := unix.FcntlInt(uintptr(fds[n]), unix.F_SETPIPE_SZ, 1<<20)
		size, _ := unix.FcntlInt(uintptr(fds[n]), unix.F_GETPIPE_SZ, 0)
		large = err == nil || size >= 64<<10
	}
	pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
	if p := pipes.Take(); p != nil {
		r.Errorf("took %+v of a user who has %d", p, n/2)
		pipes.Give(p)
	}
	pipes.Close()
	closeFrom(n / 2)
	pipes = epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
	if p := pipes.Take(); p == nil {
		r.Errorf("took none of a user who has %d", n/2)
	} else {
		pipes.Give(p)
	}
	pipes.Close()
	return nil
}

func BenchmarkPipes(b *testing.B) {
	pipes := epoll.NewPipes(epoll.NewKernel(epoll.System()), epoll.NewPipeBudget())
	defer pipes.Close()
	for name, held := range map[string]int{"kept": 0, "new": 1} {
		b.Run(name, func(b *testing.B) {
			pipes.Close()
			for b.Loop() {
				p := pipes.Take()
				p.Held = held
				pipes.Give(p)
			}
		})
	}
}
