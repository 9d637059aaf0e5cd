package redisscript_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
)

// The arguments hold the rate as a fraction: exactly, if it is a simple one of tokens and
// microseconds, and to within 2^-50 otherwise.
func TestRates(t *testing.T) {
	for _, tt := range []struct {
		q           gcra.Quota
		rate, token int64 // 0: any
	}{
		{gcra.Per(10, time.Second, 5), 1, 100_000},
		{gcra.Per(7, time.Second, 5), 7, 1_000_000},
		{gcra.Per(100, time.Minute, 5), 1, 600_000},
		{gcra.Per(1, 24*time.Hour, 5), 1, 86_400_000_000},
		{gcra.Per(999_983, time.Hour, 5), 0, 0},
		{gcra.Per(100e6, time.Second, 65536), 100, 1},
		{gcra.Per(3, 7*time.Nanosecond, 5), 3000, 7},
		{gcra.PerSecond(0.1, 5), 1, 10_000_000},
		{gcra.PerSecond(2.5, 5), 1, 400_000},
		{gcra.PerSecond(math.Pi, 5), 0, 0},
		{gcra.PerSecond(1/math.E, 1000), 0, 0},
		{gcra.PerSecond(1e9*math.Phi, 1000), 0, 0},
		{gcra.Per(1, time.Hour, 1), 1, 3_600_000_000},
	} {
		q, err := redisscript.NewQuota(tt.q)
		if err != nil {
			t.Errorf("%v: %v", tt.q, err)
			continue
		}
		args := q.Args(nil, &redisscript.Take{N: 1, Least: 1})
		rate, token := args[0].(int64), args[1].(int64)
		if tt.rate != 0 && (rate != tt.rate || token != tt.token) {
			t.Errorf("%v: %d units a microsecond, %d a token: want %d, %d", tt.q, rate, token, tt.rate, tt.token)
		}
		got, _ := big.NewRat(rate, token).Float64()
		if want := tt.q.Rate() / 1e6; math.Abs(got-want) > want*0x1p-49 {
			t.Errorf("%v: %v tokens a microsecond, want %v", tt.q, got, want)
		}
		if limit := args[2].(int64); limit != token*int64(tt.q.Burst()) || limit > 1<<50 {
			t.Errorf("%v: a limit of %d units, want the burst", tt.q, limit)
		}
	}
}

// Where the burst in units would exceed 2^50, the rate is rounded: over the time of the
// burst, by less than a millisecond.
func TestRoundedRates(t *testing.T) {
	for _, tt := range []gcra.Quota{
		gcra.PerSecond(1000*math.Pi, 1e6), gcra.PerSecond(1e8*math.Pi, 1e9), gcra.PerSecond(math.Pi, 1e6), gcra.Per(999_983, 30*24*time.Hour, 999_983),
	} {
		q, err := redisscript.NewQuota(tt)
		testrig.Must(t, err)
		args := q.Args(nil, &redisscript.Take{N: 1, Least: 1})
		burst := float64(tt.Burst())
		got, want := burst*float64(args[1].(int64))/float64(args[0].(int64)), burst/tt.Rate()*1e6
		if math.Abs(got-want) > 1000 || args[2].(int64) > 1<<50 {
			t.Errorf("%v: the burst of %d units takes %v us, want %v", tt, args[2], got, want)
		}
	}
}

func TestNoQuota(t *testing.T) {
	for _, q := range []gcra.Quota{
		gcra.Unlimited(), {}, gcra.Per(0, time.Second, 5), gcra.Per(1, 100*365*24*time.Hour, 1), gcra.Per(1, time.Hour, math.MaxInt), gcra.Per(1e13, 1, 5),
	} {
		if got, err := redisscript.NewQuota(q); err == nil {
			t.Errorf("%v: %+v, want an error", q, got)
		}
	}
}

// A reply is read as package gcra decides; times are rounded up.
func TestDecision(t *testing.T) {
	q, err := redisscript.NewQuota(gcra.Per(3, time.Second, 10)) // 3 units a microsecond, 1,000,000 a token
	testrig.Must(t, err)
	for _, tt := range []struct {
		ask   redisscript.Take
		reply []int64 // granted, units owed, taken
		want  weir.Decision
	}{
		{redisscript.Take{N: 1, Least: 1}, []int64{1, 1e6, 1}, weir.Decision{OK: true, Remaining: 9, ResetAfter: 333_334 * time.Microsecond}},
		{redisscript.Take{N: 1, Least: 1}, []int64{1, 1e6 - 1, 1}, weir.Decision{OK: true, Remaining: 9, ResetAfter: 333_333 * time.Microsecond}},
		{redisscript.Take{}, []int64{1, 0, 0}, weir.Decision{OK: true, Remaining: 10}},
		{redisscript.Take{N: 2, Least: 2}, []int64{0, 9e6, 1}, weir.Decision{Remaining: 1, RetryAfter: 333_334 * time.Microsecond, ResetAfter: 3 * time.Second}},
		{redisscript.Take{N: 11, Least: 11}, []int64{0, 0, 10}, weir.Decision{Remaining: 10, RetryAfter: weir.Never}},
		{redisscript.Take{N: 11, Least: 1}, []int64{0, 10e6, 0}, weir.Decision{RetryAfter: 333_334 * time.Microsecond, ResetAfter: 3_333_334 * time.Microsecond}},
		{redisscript.Take{N: 1, Least: 1, Ahead: time.Second}, []int64{0, 13e6, 0}, weir.Decision{RetryAfter: 333_334 * time.Microsecond, ResetAfter: 4_333_334 * time.Microsecond}},
	} {
		t.Run(fmt.Sprint(tt.ask, tt.reply), func(t *testing.T) {
			r, err := redisscript.ReadReply(append([]int64{1e15}, tt.reply...), &q)
			testrig.Must(t, err)
			if got := r.Decision(0, &q, &tt.ask); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
	if _, err := redisscript.ReadReply(make([]int64, 4), &q, &q); err == nil {
		t.Error("a reply for one key counts as one for two")
	}
}
