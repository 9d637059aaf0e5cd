//go:build system

package redislimit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
)

var bucketScript = redis.NewScript(redisscript.Buckets)

// A storedBucket asks the script about one bucket.
type storedBucket struct {
	rdb  redis.Scripter
	key  string
	q    redisscript.Quota
	most time.Duration
}

func (b *storedBucket) take(t *testing.T, ask redisscript.Take) redisscript.Reply {
	t.Helper()
	ask.Most = b.most
	return run(t, b.rdb, []string{b.key}, []*redisscript.Quota{&b.q}, []redisscript.Take{ask})
}

// grain is by how much instants may differ: the clock of a server counts microseconds.
const grain = 2 * time.Microsecond

// near reports whether two waits are the same, to within the grain.
func near(a, b time.Duration) bool { return a == b || max(a-b, b-a) <= grain }

// A trace of random operations has the same decisions in a server as in package gcra.
func TestConformance(t *testing.T) {
	quotas := []gcra.Quota{
		gcra.Per(1, time.Hour, 3), gcra.Per(100, time.Second, 1), gcra.Per(1000, time.Second, 20), gcra.Per(5000, time.Second, 7),
		gcra.Per(7, time.Second, 10), gcra.Per(7919, time.Second, 50), gcra.PerSecond(1234.5678, 9), gcra.Per(999983, time.Hour, 4),
		gcra.Per(3, 7*time.Millisecond, 5), gcra.Per(100e6, time.Second, 65536), gcra.Per(3e9, time.Second, 1<<30),
		gcra.Per(1, 24*365*time.Hour, 30), gcra.Per(10, time.Second, 0),
	}
	for _, engine := range redistest.Engines {
		server := redistest.Start(t, engine)
		for i, q := range quotas {
			t.Run(fmt.Sprintf("%s/%v", engine, q), func(t *testing.T) {
				t.Parallel()
				sq, err := redisscript.NewQuota(q)
				if err != nil {
					t.Fatal(err)
				}
				trace(t, q, &storedBucket{rdb: client(t, server), key: fmt.Sprint("trace:", i), q: sq, most: weir.Never}, 400)
			})
		}
	}
}

func trace(t *testing.T, q gcra.Quota, stored *storedBucket, steps int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	var b gcra.Bucket
	interval := time.Duration(1e9 / q.Rate())
	for i := range steps {
		if chance.IntN(3) == 0 {
			time.Sleep(min(time.Duration(chance.Int64N(int64(3*interval)+1)), time.Millisecond))
		}
		n := chance.IntN(q.Burst() + 2)
		if chance.IntN(2) == 0 {
			n = min(1, q.Burst())
		}
		at := func(r redisscript.Reply) string {
			return fmt.Sprintf("step %d, %d tokens at %v of %v", i, n, r.Time, q)
		}
		switch op := chance.IntN(8); op {
		case 0, 1, 2, 3: // take or look
			ask := redisscript.Take{N: n, Least: n}
			r := stored.take(t, ask)
			got := r.Decision(0, &stored.q, &ask)
			next, want := q.Take(b, r.Time, n)
			switch {
			case got.OK && !want.OK && want.RetryAfter <= grain:
				next, _ = q.Charge(b, r.Time, n, 1)
			case !got.OK && want.OK && got.RetryAfter <= grain:
				next = b
			case got.OK != want.OK || !near(got.RetryAfter, want.RetryAfter) || !near(got.ResetAfter, want.ResetAfter) || max(got.Remaining-want.Remaining, want.Remaining-got.Remaining) > slack(q):
				t.Fatalf("take: %s: %+v, want %+v", at(r), got, want)
			}
			b = next
		case 4: // reserve
			if n > q.Burst() {
				continue
			}
			ahead := time.Duration(chance.Int64N(int64(min(5*interval, time.Hour)) + 1)).Truncate(time.Microsecond)
			r := stored.take(t, redisscript.Take{N: n, Least: n, Ahead: ahead})
			next, wait, ok := q.Reserve(b, r.Time, n, ahead)
			if r.Granted != ok && max(wait-ahead, ahead-wait) > grain || r.Granted && !near(r.Wait(0, &stored.q), wait) {
				t.Fatalf("reserve: %s within %v: %v, %v, want %v, %v", at(r), ahead, r.Granted, r.Wait(0, &stored.q), ok, wait)
			}
			if r.Granted && !ok {
				next, _ = q.Charge(b, r.Time, n, q.Burst())
			} else if !r.Granted {
				next = b
			}
			b = next
		case 5: // give back
			_ = stored.take(t, redisscript.Take{N: -n})
			b = q.Refund(b, n)
		case 6: // charge
			debt := chance.IntN(q.Burst() + 1)
			r := stored.take(t, redisscript.Take{N: n, Debt: debt})
			next, took := q.Charge(b, r.Time, n, debt)
			if got := max(r.Taken(0), 0); max(got-took, took-got) > slack(q) {
				t.Fatalf("charge: %s with a debt of %d: %d, want %d", at(r), debt, got, took)
			} else if got != took {
				next, _ = q.Charge(b, r.Time, got, q.Burst()+1)
			}
			b = next
		case 7: // at most
			ask := redisscript.Take{N: n, Least: min(n, 1)}
			r := stored.take(t, ask)
			_, look := q.Take(b, r.Time, 0)
			want := min(n, look.Remaining)
			if max(r.Taken(0)-want, want-r.Taken(0)) > slack(q) {
				t.Fatalf("at most: %s: %d, want %d", at(r), r.Taken(0), want)
			}
			b, _ = q.Charge(b, r.Time, max(r.Taken(0), 0), 1)
		}
	}
}

// slack returns by how many tokens decisions may differ: the refill of the grain.
func slack(q gcra.Quota) int { return int(q.Rate()*grain.Seconds()) + 1 }

// A call for several keys takes from all of them or from none, and tells about each.
func TestAllOrNothing(t *testing.T) {
	for _, engine := range redistest.Engines {
		t.Run(engine, func(t *testing.T) {
			rdb := client(t, redistest.Start(t, engine))
			var quotas [2]redisscript.Quota
			for i, q := range []gcra.Quota{gcra.Per(1, time.Hour, 3), gcra.Per(7, 10*time.Hour, 5)} {
				var err error
				if quotas[i], err = redisscript.NewQuota(q); err != nil {
					t.Fatal(err)
				}
			}
			for i, tt := range []struct {
				n         [2]int // tokens of each key
				granted   bool
				remaining [2]int
				retry     [2]time.Duration // to within a minute
			}{
				{n: [2]int{2, 1}, granted: true, remaining: [2]int{1, 4}},
				{n: [2]int{2, 1}, remaining: [2]int{1, 4}, retry: [2]time.Duration{time.Hour, 0}},
				{n: [2]int{0, 5}, remaining: [2]int{1, 4}, retry: [2]time.Duration{0, 10 * time.Hour / 7}},
				{n: [2]int{2, 6}, remaining: [2]int{1, 4}, retry: [2]time.Duration{time.Hour, weir.Never}},
				{n: [2]int{1, 4}, granted: true, remaining: [2]int{0, 0}},
				{n: [2]int{0, 0}, granted: true, remaining: [2]int{0, 0}},
				{n: [2]int{-2, 0}, granted: true, remaining: [2]int{2, 0}},
			} {
				var takes [2]redisscript.Take
				for j, n := range tt.n {
					takes[j] = redisscript.Take{N: n, Least: max(n, 0), Most: time.Hour}
				}
				r := run(t, rdb, []string{"{user}:a", "{user}:b"}, []*redisscript.Quota{&quotas[0], &quotas[1]}, takes[:])
				for j := range takes {
					d := r.Decision(j, &quotas[j], &takes[j])
					retry := d.RetryAfter
					if retry != weir.Never {
						retry = retry.Round(time.Minute)
					}
					if r.Granted != tt.granted || d.OK != (tt.retry[j] == 0) || d.Remaining != tt.remaining[j] || max(retry-tt.retry[j], tt.retry[j]-retry) > time.Minute {
						t.Errorf("call %d, key %d: granted %v, %+v, want %+v", i, j, r.Granted, d, tt)
					}
				}
			}
		})
	}
}
