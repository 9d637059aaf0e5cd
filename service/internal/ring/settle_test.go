package ring

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

var histories = flag.Int("histories", 300, "random histories of TestSettlementsAreExact")

// Whatever members take and settle, a key has as many tokens in the end as a twin from which only the true
// costs were taken: never more, and fewer by a 64th of the burst at most, and by what is refilled
// while a request is on its way.
func TestSettlementsAreExact(t *testing.T) {
	const burst = 640
	inFleet(t, 3, bucket(burst, 10*time.Second), func(t *testing.T, f *fleet) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		chance := rand.New(rand.NewPCG(seed, 44))
		ctx := context.Background()
		member := func() *node { return f.nodes[f.names[chance.IntN(3)]] }
		decide := func(key string, n int) (v decider.Verdict, at *node) {
			at = member()
			if err := at.Decide(ctx, &decider.Request{Key: key, N: n, WantID: n > 0}, &v); err != nil {
				t.Fatal(err)
			}
			return v, at
		}
		type grant struct {
			id     string
			was, n int
		}
		for i := range *histories {
			key, twin := fmt.Sprint("key ", i), fmt.Sprint("twin ", i)
			var open []grant
			settle := func() {
				at := chance.IntN(len(open))
				g := open[at]
				open = append(open[:at], open[at+1:]...)
				if done, err := member().Settle(ctx, key, g.id, g.n); err != nil || done != (decider.Settlement{Was: g.was, Charged: g.n}) {
					t.Fatalf("%+v, %v: want %+v", done, err, g)
				}
			}
			largest := 1 + chance.IntN(burst)
			for range 2 + chance.IntN(20) {
				time.Sleep(time.Duration(chance.ExpFloat64() * float64(time.Second) * float64(chance.IntN(2))))
				if len(open) > 0 && chance.IntN(3) == 0 {
					settle()
					continue
				}
				was := 1 + chance.IntN(largest)
				v, at := decide(key, was)
				if !v.OK {
					continue
				}
				g := grant{string(at.AppendGrantID(nil, v.Grant, key)), was, chance.IntN(was + 1)}
				open = append(open, g)
				if v, _ := decide(twin, g.n); !v.OK && g.n > 0 {
					t.Fatalf("the twin has fewer tokens: %+v", v)
				}
			}
			for len(open) > 0 {
				settle()
			}
			got, _ := decide(key, 0)
			want, _ := decide(twin, 0)
			if less := want.Answers[0].Remaining - got.Answers[0].Remaining; less < -3 || less > burst/64+3 {
				t.Errorf("%d tokens less than the twin", less)
			}
		}
	})
}
