//go:build system

package redislimit_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
)

var leavesScript = redis.NewScript(redisscript.Leaves)

func runLeaves(t testing.TB, rdb redis.Scripter, r redisscript.LeafReport) redisscript.LeafReply {
	t.Helper()
	numbers, err := leavesScript.Run(context.Background(), rdb, []string{"{key}:leaves"}, r.Args()...).Int64Slice()
	testrig.Must(t, err)
	reply, err := redisscript.ReadLeafReply(numbers)
	testrig.Must(t, err)
	return reply
}

// fair returns the max-min fair shares of demands: it gives all that want more the same in small
// steps.
func fair(wants []float64) []float64 {
	const step = 1e-4
	shares := make([]float64, len(wants))
	for left := 1.0; left > 0; {
		given := false
		for i, want := range wants {
			if shares[i] < want && left > 0 {
				shares[i], left, given = shares[i]+step, left-step, true
			}
		}
		if !given {
			break
		}
	}
	return shares
}

// What leaves may be using never exceeds the limit, whatever they report and whatever answers are
// lost; after four reports each, the shares are max-min fair.
func TestLeavesScript(t *testing.T) {
	for _, engine := range []string{"redis-server", "valkey-server"} {
		t.Run(engine, func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t, engine).Addr})
			defer rdb.Close()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			wants, has := make([]float64, 12), make([]float64, 12)
			report := func(i int, lost bool) redisscript.LeafReply {
				r := runLeaves(t, rdb, redisscript.LeafReport{Leaf: fmt.Sprint("leaf-", i), TTL: time.Minute, Wants: wants[i], Has: has[i]})
				if !lost {
					has[i] = r.Share
				}
				sum := 0.0
				for _, h := range has {
					sum += h
				}
				if sum > 1+1e-9 {
					t.Fatalf("the leaves may use %v of the limit", sum)
				}
				return r
			}
			for range 30 {
				for i := range wants {
					wants[i] = math.Abs(rng.NormFloat64()) * []float64{0.02, 0.3}[rng.IntN(2)]
				}
				for range 40 {
					report(rng.IntN(len(wants)), rng.IntN(4) == 0)
				}
				var last redisscript.LeafReply
				for range 4 { // they tell what they want, shrink, tell that they have shrunk, and grow
					for _, i := range rng.Perm(len(wants)) {
						last = report(i, false)
					}
				}
				sum := 0.0
				for _, want := range wants {
					sum += want
				}
				if last.Leaves != len(wants) || last.Contended != (sum > 1) {
					t.Errorf("%+v with %d leaves that want %v", last, len(wants), sum)
				}
				for i, share := range fair(wants) {
					if has[i] < share-2e-3 || sum > 1 && has[i] > share+2e-3 {
						t.Errorf("leaf %d has %v: want %v of %v", i, has[i], share, wants)
					}
				}
			}
			if r := runLeaves(t, rdb, redisscript.LeafReport{Leaf: "leaf-0", Leave: true}); r.Leaves != len(wants)-1 {
				t.Errorf("%d leaves after one has left", r.Leaves)
			}
		})
	}
}

// A share returns when its time is over, and a leaf that the store has lost keeps what it has.
func TestLeavesScriptExpiry(t *testing.T) {
	server := redistest.Start(t, "redis-server")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer rdb.Close()
	gone := runLeaves(t, rdb, redisscript.LeafReport{Leaf: "gone", TTL: time.Millisecond, Wants: 1})
	if gone.Share != 1 {
		t.Errorf("a leaf alone gets %v of the limit", gone.Share)
	}
	time.Sleep(20 * time.Millisecond) // the server's clock
	if next := runLeaves(t, rdb, redisscript.LeafReport{Leaf: "next", TTL: time.Minute, Wants: 0.5}); next.Share != 0.75 || next.Leaves != 1 {
		t.Errorf("after the time of the other leaf: %+v", next)
	}
	server.Do("FLUSHALL")
	if again := runLeaves(t, rdb, redisscript.LeafReport{Leaf: "next", TTL: time.Minute, Wants: 0.5, Has: 0.75}); again.Share != 0.75 {
		t.Errorf("after a flush: %+v", again)
	}
	if other := runLeaves(t, rdb, redisscript.LeafReport{Leaf: "other", TTL: time.Minute, Wants: 1}); other.Share != 0.25 || !other.Contended {
		t.Errorf("beside a leaf that has three quarters: %+v", other)
	}
}
