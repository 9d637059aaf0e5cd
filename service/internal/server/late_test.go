package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
)

// TestTurnsServedLateAreNotLost: if the timer is heard five turns late, five have
// their turn at once, though the bucket holds one token.
func TestTurnsServedLateAreNotLost(t *testing.T) {
	for _, a := range []config.Algorithm{config.GCRA, config.Fixed} {
		t.Run(string(a), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { servedLate(t, a) }) })
	}
}

func servedLate(t *testing.T, a config.Algorithm) {
	s, err := New(Config{Rules: &config.Rules{Rules: []config.Rule{{
		Name: "r", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 1, Period: time.Second}, Algorithm: a},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Decide(&Request{Key: "a", N: 1}, new(Verdict))
	ended := make(chan time.Duration, 8)
	start := time.Now()
	for range 8 {
		go func() {
			if err := s.Wait(t.Context(), &Request{Key: "a", N: 1}, new(Verdict)); err == nil {
				ended <- time.Since(start)
			}
		}()
	}
	synctest.Wait()
	l := &s.rules.Load().rules[0].live.lines
	l.timer.Stop()
	time.Sleep(5*time.Second + time.Second/2)
	l.wake()
	synctest.Wait()
	if n := len(ended); n != 5 {
		t.Errorf("%d had their turn, want 5", n)
	}
	time.Sleep(3 * time.Second)
	synctest.Wait()
	for range 5 {
		<-ended
	}
	for i := range 3 {
		if at, want := <-ended, time.Duration(6+i)*time.Second; at != want {
			t.Errorf("turn %d came after %v, want %v", 6+i, at, want)
		}
	}
}

// TestALateTurnOfALimitOfOnesOwn: at its time there were too few tokens, but now
// there are enough.
func TestALateTurnOfALimitOfOnesOwn(t *testing.T) {
	for _, per := range []config.Per{"", config.PerRule} {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Config{MaxLimit: 10, Rules: &config.Rules{Rules: []config.Rule{{
				Name: "r", Glob: "*", Per: per, Quota: config.Quota{Rate: config.Rate{Count: 1, Period: time.Second}, Burst: 10},
			}}}})
			if err != nil {
				t.Fatal(err)
			}
			s.Decide(&Request{Key: "a", N: 10}, new(Verdict))
			ended := make(chan error, 1)
			go func() { ended <- s.Wait(t.Context(), &Request{Key: "a", N: 1, Limit: 5}, new(Verdict)) }()
			synctest.Wait()
			l := &s.rules.Load().rules[0].live.lines
			l.timer.Stop() // its turn is after six seconds
			time.Sleep(5*time.Second + time.Second/2)
			s.Decide(&Request{Key: "a", N: 3}, new(Verdict))
			time.Sleep(5 * time.Second)
			l.wake()
			synctest.Wait()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestARefundOfAWindowThatBeganMeanwhile: between the look at the clock and the
// decision, somebody else's request has begun the window.
func TestARefundOfAWindowThatBeganMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Rules: &config.Rules{Rules: []config.Rule{{
			Name: "r", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 10, Period: time.Second}, Algorithm: config.Fixed},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		before := s.now()
		time.Sleep(time.Millisecond)
		var v Verdict
		s.Decide(&Request{Key: "a", N: 1}, &v)
		req := Request{Key: "a", N: 5}
		s.decide(&req, &v, before, true)
		s.giveBack(&req, v.Answers)
		if used := s.Explain("a").Rules[0].Used; used != 1 {
			t.Errorf("%d are used, want 1", used)
		}
	})
}
