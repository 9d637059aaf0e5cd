package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// TestOwnLimitDelaysNoOtherRequest: a request that asks for a smaller limit waits
// for that, apart from the others.
func TestOwnLimitDelaysNoOtherRequest(t *testing.T) {
	for _, a := range []config.Algorithm{config.GCRA, config.Fixed} {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{MaxLimit: 1000, MaxQueue: 1000}, queued(quota(100, time.Hour, a), 10))
				d.allows("a", 10, 10)
				ended := d.queue(t.Context(), decider.Request{Key: "a", N: 1, Limit: 1})
				d.allows("a", 90, 91)
				check(t, "waiting", d.Explain("a").Rules[0].Waiting, 1)
				v, err := d.wait(t.Context(), decider.Request{Key: "a", N: 1, Limit: 1, OwnQueue: true})
				if err != nil || v.Reason != weir.QueueFull {
					t.Errorf("behind it there is no room: %+v, %v", v, err)
				}
				check(t, "it waits for its own limit", <-ended, "granted after 1h0m0s")
			})
		})
	}
}

// TestOwnLimitIsKnownOnArrival: a request that cannot get its turn in time, or ever,
// is refused.
func TestOwnLimitIsKnownOnArrival(t *testing.T) {
	for _, tt := range []struct {
		rule string
		a    config.Algorithm
		req  decider.Request
		want weir.Reason
	}{
		{"too late in windows", config.Fixed, decider.Request{N: 1, Limit: 1}, weir.TooLate},
		{"too late in a bucket", config.GCRA, decider.Request{N: 1, Limit: 1}, weir.TooLate},
		{"more than it ever lets pass", config.Fixed, decider.Request{N: 2, Limit: 1}, weir.OverBurst},
		{"more than it ever lets pass", config.GCRA, decider.Request{N: 2, Limit: 1}, weir.OverBurst},
		{"more than a bucket holds", config.GCRA, decider.Request{N: 150, Limit: 200}, weir.OverBurst},
	} {
		t.Run(tt.rule+"/"+string(tt.a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{MaxLimit: 1000}, queued(quota(100, time.Hour, tt.a), 10))
				d.allows("a", 50, 50)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				tt.req.Key = "a"
				start := time.Now()
				v, err := d.wait(ctx, tt.req)
				if err != nil || v.Reason != tt.want || time.Since(start) > 0 {
					t.Errorf("%+v, %v after %v", v, err, time.Since(start))
				}
				if d.Decide(&tt.req, &v); v.OK {
					t.Error("without a wait it is allowed")
				}
				d.allows("a", 50, 51)
			})
		})
	}
}

// TestWaitUnderAGoneRule: a request reads the old rules before a reload, and begins
// to wait after it.
func TestWaitUnderAGoneRule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slowly, freely := one("slow", quota(1, time.Hour, "")), one("free", quota(1000, time.Second, ""))
		d := newDesk(t, server.Config{}, slowly)
		for i := range 50 {
			for range 5 {
				go d.wait(t.Context(), decider.Request{Key: "a", N: 1})
			}
			next := slowly
			if i%2 == 0 {
				next = freely
			}
			must(t, d.Reload(&config.Rules{Rules: []config.Rule{next}}))
		}
		must(t, d.Reload(&config.Rules{Rules: []config.Rule{freely}}))
		time.Sleep(time.Minute)
		check(t, "waiting", d.Waiting(), 0)
	})
}

// TestALimitThatChangesNothing is ignored: the request waits with the others.
func TestALimitThatChangesNothing(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		a     config.Algorithm
		limit int
	}{
		{"the bucket's own", config.GCRA, 5},
		{"a larger one than the bucket's", config.GCRA, 8},
		{"the window's own", config.Fixed, 5},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{MaxLimit: 10}, queued(quota(5, 5*time.Second, tt.a), 100))
				d.allows("a", 5, 5)
				var ended []<-chan string
				for range 6 {
					ended = append(ended, d.queue(t.Context(), decider.Request{Key: "a", N: 1}))
				}
				last := d.queue(t.Context(), decider.Request{Key: "a", N: 1, Limit: tt.limit})
				turn := <-last
				synctest.Wait()
				for _, e := range ended {
					select {
					case <-e:
					default:
						t.Errorf("%s, before one who came first", turn)
					}
				}
			})
		})
	}
}

// TestBehindOthersWithALimit: a window allows two of them at a time.
func TestBehindOthersWithALimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{MaxLimit: 10}, queued(quota(10, time.Minute, config.Fixed), 100))
		d.allows("a", 10, 10)
		for range 5 {
			d.queue(t.Context(), decider.Request{Key: "a", N: 1, Limit: 2})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		v, err := d.wait(ctx, decider.Request{Key: "a", N: 1, Limit: 2})
		if err != nil || v.Reason != weir.TooLate || v.RetryAfter != 3*time.Minute || v.Place != 5 {
			t.Errorf("the sixth: %+v, %v", v, err)
		}
	})
}
