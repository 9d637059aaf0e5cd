package keyed_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

// Each user has five requests at once, and then one every ten seconds.
func ExampleLimiter() {
	lim, err := keyed.New[string](gcra.Per(1, 10*time.Second, 5), keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 6 {
		if d := lim.Take("alice", 1); !d.OK {
			fmt.Printf("request %d: come back in %v\n", i, d.RetryAfter.Round(time.Second))
		}
	}
	fmt.Println("bob:", lim.Allow("bob"))
	// Output:
	// request 5: come back in 10s
	// bob: true
}

// Each user has two jobs in flight at most.
func ExampleInflight() {
	lim, err := keyed.NewInflight[string](2, keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, _ := lim.TryAcquire("alice", 1)
	second, _ := lim.TryAcquire("alice", 1)
	defer second.Release(weir.Success)
	_, third := lim.TryAcquire("alice", 1)
	bobs, ok := lim.TryAcquire("bob", 1)
	defer bobs.Release(weir.Success)
	fmt.Println("third:", third, "bob:", ok)

	first.Release(weir.Success) // when the first job has ended
	again, ok := lim.TryAcquire("alice", 1)
	defer again.Release(weir.Success)
	fmt.Println("again:", ok)
	// Output:
	// third: false bob: true
	// again: true
}

// An address stands for its site: of IPv6, the first 64 bits.
func ExampleNew_addresses() {
	lim, err := keyed.New[netip.Addr](gcra.Per(1, time.Minute, 1), keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lim.Allow(netip.MustParseAddr("2001:db8::1")))
	fmt.Println(lim.Allow(netip.MustParseAddr("2001:db8::2"))) // the same site
	fmt.Println(lim.Allow(netip.MustParseAddr("192.0.2.1")))
	fmt.Println(lim.Allow(netip.MustParseAddr("192.0.2.2")))
	// Output:
	// true
	// false
	// true
	// true
}

// Config bounds the memory, whatever the number of keys.
func ExampleConfig() {
	_, err := keyed.New[string](gcra.Per(1, time.Second, 5), keyed.Config{Memory: 1000})
	fmt.Println(err)
	// Output: keyed: Memory = 1000: must be 0, or from 65536 to 1099511627776
}

// A call to a language model costs as many tokens as its answer turns out to
// have.
func ExampleKey() {
	lim, err := keyed.New[string](gcra.Per(1000, time.Minute, 1000), keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := lim.For("alice").Acquire(context.Background(), 400) // an estimate
	if err != nil {
		fmt.Println(err) // a *weir.Rejection, or the context's own error
		return
	}
	defer permit.Release(weir.Ignored)
	permit.Use(150) // the truth
	fmt.Println(lim.Take("alice", 0).Remaining, "left")
	// Output: 850 left
}

func ExampleLimiter_SetQuotaFor() {
	lim, err := keyed.New[string](gcra.Per(1, time.Minute, 1), keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	lim.SetQuotaFor("partner", new(gcra.Per(100, time.Second, 50)))
	lim.SetQuotaFor("abuser", new(gcra.Quota{})) // nothing
	fmt.Println(lim.For("partner").Burst())
	fmt.Println(lim.Allow("abuser"))
	// Output:
	// 50
	// false
}

// Top tells which keys are denied most.
func ExampleLimiter_Top() {
	lim, err := keyed.New[string](gcra.Per(1, time.Hour, 1), keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 5 {
		lim.Allow("alice")
	}
	lim.Allow("bob")
	for key, denials := range lim.Top(10) {
		fmt.Println(key, denials)
	}
	fmt.Println(lim.Stats().Denied)
	// Output:
	// alice 4
	// 4
}

// What a process knows survives it.
func ExampleLimiter_Snapshot() {
	quota := gcra.Per(1, time.Hour, 1)
	lim, err := keyed.New[string](quota, keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	lim.Allow("alice")
	var file bytes.Buffer
	if err := lim.Snapshot(&file); err != nil {
		fmt.Println(err)
	}

	next, err := keyed.New[string](quota, keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := next.Restore(&file); err != nil {
		fmt.Println(err)
	}
	fmt.Println(next.Allow("alice"), next.Allow("bob"))
	// Output: false true
}

func ExampleStats() {
	lim, err := keyed.New[int](gcra.Per(1, time.Hour, 1), keyed.Config{Memory: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 1_000_000 { // more than there is room for
		lim.Allow(i)
	}
	s := lim.Stats()
	fmt.Println(s.Memory <= 1<<20, s.Forgotten > 0)
	// Output: true true
}

// Each account may send three messages an hour, from its first on.
func ExampleWindows() {
	lim, err := keyed.NewWindows[string](keyed.Window{Limit: 3, Period: time.Hour}, keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 4 {
		d := lim.Take("alice", 1)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter.Round(time.Minute))
	}
	fmt.Println(lim.Take("bob", 1).OK)
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 1h0m0s
	// true
}

// Work that cost less than was thought gives back the rest, if the window that
// it was counted in is still the present one.
func ExampleWindows_Settle() {
	lim, _ := keyed.NewWindows[string](keyed.Window{Limit: 1000, Period: time.Hour}, keyed.Config{})
	lim.Take("alice", 500)
	at := time.Now()

	fmt.Println(lim.Settle("alice", at, 500, 120))
	fmt.Println(lim.Take("alice", 0).Remaining)
	// Output:
	// 120
	// 880
}

// Five exports a day, by the calendar of the customer: all days end at midnight.
func ExampleCalendar() {
	oslo := time.FixedZone("CET", 3600) // or time.LoadLocation("Europe/Oslo")
	lim, err := keyed.NewWindows[string](keyed.Window{Limit: 5, Calendar: keyed.Day, Location: oslo}, keyed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := lim.Take("alice", 3)
	midnight := time.Now().Add(d.ResetAfter).Round(time.Second).In(oslo)
	fmt.Println(d.Remaining, midnight.Format(time.TimeOnly))
	// Output: 2 00:00:00
}
