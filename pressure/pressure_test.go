package pressure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/internal/wrappedtest"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/pressuretest"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/rate"
)

func of(p weir.Priority) context.Context {
	return weir.WithClass(context.Background(), weir.Class{Priority: p})
}

// second sends 100 requests of each priority in a second in which work waits for a time, and
// returns how many of them are rejected.
func second(t *testing.T, k *pressuretest.Kernel, l weir.Limiter, stall time.Duration) (rejected map[weir.Priority]int) {
	rejected = map[weir.Priority]int{}
	for range 10 {
		for range 10 {
			for _, p := range []weir.Priority{-7, weir.Sheddable, weir.Critical, weir.CriticalPlus, 9} {
				permit, err := l.Acquire(of(p), 1)
				if err != nil {
					r, ok := errors.AsType[*weir.Rejection](err)
					if !ok || r.Reason != weir.OverLimit || r.RetryAfter != time.Second {
						t.Errorf("%v: want OverLimit", err)
					}
					rejected[p]++
				}
				permit.Release(weir.Success)
			}
		}
		time.Sleep(100 * time.Millisecond)
		k.Stall(stall / 10)
	}
	return rejected
}

// Under full pressure sheddable requests are rejected, then a part of the ordinary ones, and
// no request that must not fail. Without pressure, all pass again.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := pressuretest.New(t)
		g, err := pressure.New(pressure.Config{Max: 0.4, Path: k.Path})
		testrig.Must(t, err)
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(10)})
		testrig.Must(t, err)
		l := g.Limit(lim)
		second := func(stall time.Duration) map[weir.Priority]int { return second(t, k, l, stall) }
		if got := second(time.Second / 4); len(got) > 0 {
			t.Errorf("below the bound: %v are rejected", got)
		}
		var got map[weir.Priority]int
		for range 8 {
			got = second(time.Second)
		}
		if got[-7] < 90 || got[weir.Sheddable] < 90 || got[weir.Critical] < 48 || got[weir.Critical] > 52 || got[weir.CriticalPlus]+got[9] > 0 {
			t.Errorf("under pressure, of 100 each: %v are rejected", got)
		}
		for range 12 {
			got = second(time.Second)
		}
		if got[weir.Sheddable] < 90 || got[weir.Critical] > 0 {
			t.Errorf("under pressure that does not fall, of 100 each: %v are rejected", got)
		}
		st := g.Stats()
		if st.Pressure != 1 || st.Err != nil || st.Rejected[weir.Critical] == 0 || len(st.Rejected) != 3 {
			t.Errorf("%+v", st)
		}
		if counts := lim.Stats(); counts.Admitted == 0 || counts.Rejected[weir.OverLimit] > 0 {
			t.Errorf("the limiter has %+v", counts)
		}
		testrig.Must(t, g.SetMax(0.99))
		for range 60 {
			second(time.Second / 2)
		}
		if got := second(0); len(got) > 0 || g.Stats().Shed != 0 {
			t.Errorf("below the new bound: %v are rejected", got)
		}
	})
}

// A file that cannot be read any more turns the signal off, until it can.
func TestLostFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := pressuretest.New(t)
		g, err := pressure.New(pressure.Config{Max: 0.4, Path: k.Path})
		testrig.Must(t, err)
		seconds := func(n int) (rejected int) {
			for range 10 * n {
				if _, err := g.Acquire(of(weir.Sheddable), 1); err != nil {
					rejected++
				}
				time.Sleep(100 * time.Millisecond)
				if k.Path != "" {
					k.Stall(100 * time.Millisecond)
				}
			}
			return rejected
		}
		if seconds(30) == 0 {
			t.Error("nothing is rejected under pressure")
		}
		path := k.Path
		k.Path = ""
		testrig.Must(t, os.Remove(path))
		seconds(30)
		if n := seconds(10); n > 0 || g.Stats().Err == nil || g.Stats().Pressure != 0 {
			t.Errorf("without the file: %d are rejected, %+v", n, g.Stats())
		}
		k.Path = path
		if seconds(30) == 0 || g.Stats().Err != nil {
			t.Errorf("nothing is rejected once the file is back: %+v", g.Stats())
		}
	})
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		path := filepath.Join(dir, fmt.Sprint(len(text)))
		testrig.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, tt := range []struct {
		cfg  pressure.Config
		want string // in the error
	}{
		{pressure.Config{}, "pressure: Max = 0: must be > 0 and < 1"},
		{pressure.Config{Max: 1}, "pressure: Max = 1: must be > 0 and < 1"},
		{pressure.Config{Max: 0.4, MaxCritical: 1.5}, "pressure: MaxCritical = 1.5: must be <= 1"},
		{pressure.Config{Max: 0.4, Path: filepath.Join(dir, "none")}, "needs Linux with pressure stall information"},
		{pressure.Config{Max: 0.4, Path: write("full avg10=0.00 total=9\n")}, "no line"},
		{pressure.Config{Max: 0.4, Path: write("some avg10=0.00 total=-9\n")}, "no line"},
		{pressure.Config{Max: 0.4, Path: write("some total=9999999999999999999\n")}, "no line"},
		{pressure.Config{Max: 0.4, MaxCritical: -1, Path: write("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")}, ""},
	} {
		g, err := pressure.New(tt.cfg)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v: want %q", tt.cfg, err, tt.want)
		}
		if err == nil && (g.Path() != tt.cfg.Path || g.SetMax(2) == nil) {
			t.Errorf("%+v: path %q, SetMax(2): %v", tt.cfg, g.Path(), g.SetMax(2))
		}
	}
	if _, err := pressure.New(pressure.Config{Max: 0.4, Path: filepath.Join(dir, "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: want os.ErrNotExist", err)
	}
}

// Without a limiter the Guard decides alone.
func TestLimit(t *testing.T) {
	g, err := pressure.New(pressure.Config{Max: 0.4, Path: pressuretest.New(t).Path})
	testrig.Must(t, err)
	if g.Limit(nil) != weir.Limiter(g) {
		t.Error("without a limiter, the Guard does not decide")
	}
	if _, err := g.Limit(rate.NewLimiter(1, 1)).Acquire(t.Context(), 2); err == nil {
		t.Error("the limiter behind the Guard does not decide")
	}
}

// A Guard that rejects nothing changes no decision of the limiter behind it.
func TestChangesNoDecision(t *testing.T) {
	g, err := pressure.New(pressure.Config{Max: 0.4, Path: pressuretest.New(t).Path})
	testrig.Must(t, err)
	wrappedtest.ChangesNoDecision(t, g.Limit)
}

// Many goroutines take readings and decisions at once.
func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := pressuretest.New(t)
		g, err := pressure.New(pressure.Config{Max: 0.4, Path: k.Path})
		testrig.Must(t, err)
		for range 20 {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 100 {
						_ = g.Check(weir.Sheddable)
						g.Stats()
					}
				})
			}
			all.Wait()
			k.Stall(time.Second)
			time.Sleep(time.Second)
		}
		if st := g.Stats(); st.Rejected[weir.Sheddable] == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Neither admission nor rejection allocates between readings.
func TestAllocs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := pressuretest.New(t)
		g, err := pressure.New(pressure.Config{Max: 0.4, Path: k.Path})
		testrig.Must(t, err)
		ctx := of(weir.Sheddable)
		for range 60 {
			if n := testing.AllocsPerRun(10, func() { _, _ = g.Acquire(ctx, 1) }); n > 0 {
				t.Fatalf("%v allocations with %.0f %% rejected", n, 100*g.Stats().Shed)
			}
			k.Stall(time.Second)
			time.Sleep(time.Second)
			_, _ = g.Acquire(ctx, 1) // takes the reading
		}
		if st := g.Stats(); st.Shed < 0.5 {
			t.Errorf("%+v: want that most are rejected", st)
		}
	})
}

// The file of this machine's kernel is found. If the kernel does not measure the pressure, the
// error says so.
func TestThisMachine(t *testing.T) {
	_, missing := os.ReadFile("/proc/pressure/cpu")
	g, err := pressure.New(pressure.Config{Max: 0.4})
	switch {
	case missing != nil:
		if err == nil || !strings.Contains(err.Error(), "psi=1") || !strings.Contains(err.Error(), missing.Error()) {
			t.Errorf("%v: want that the kernel does not measure the pressure: %v", err, missing)
		}
	case err != nil:
		t.Error(err)
	case !strings.Contains(g.Path(), "pressure"):
		t.Errorf("reads %s", g.Path())
	}
}

func BenchmarkAcquire(b *testing.B) {
	path := filepath.Join(b.TempDir(), "cpu.pressure")
	testrig.Must(b, os.WriteFile(path, []byte("some total=0\n"), 0o600))
	g, err := pressure.New(pressure.Config{Max: 0.4, Path: path})
	testrig.Must(b, err)
	ctx := context.Background()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = g.Acquire(ctx, 1)
		}
	})
}
