package window_test

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/window"
)

// Five per day, by the calendar of the customer.
func ExampleQuota() {
	oslo := time.FixedZone("CET", 3600) // or time.LoadLocation("Europe/Oslo")
	epoch := time.Date(2027, time.March, 1, 21, 0, 0, 0, oslo)
	quota := window.Quota{Limit: 5, Calendar: window.Dates(window.Day, epoch, oslo)}

	var count window.Count // of one user
	for _, now := range []time.Duration{0, time.Hour, 2 * time.Hour, 3 * time.Hour} {
		c, d := quota.Take(count, now, 3)
		count = c
		fmt.Println(epoch.Add(now).Format("15:04"), d.OK, d.Remaining, d.RetryAfter)
	}
	// Output:
	// 21:00 true 2 0s
	// 22:00 false 2 2h0m0s
	// 23:00 false 2 1h0m0s
	// 00:00 true 2 0s
}

// A hundred in any minute, near enough. What one minute used fades out over
// the next.
func ExampleQuota_sliding() {
	quota := window.Quota{Sliding: true, Limit: 100, Period: time.Minute}

	var counts window.Count // of one user
	for _, ask := range []struct {
		at time.Duration
		n  int
	}{{59 * time.Second, 100}, {60 * time.Second, 25}, {75 * time.Second, 25}, {90 * time.Second, 25}} {
		c, d := quota.Take(counts, ask.at, ask.n)
		counts = c
		fmt.Println(ask.at, d.OK, d.Remaining, d.RetryAfter)
	}
	// Output:
	// 59s true 0 0s
	// 1m0s false 0 15s
	// 1m15s true 0 0s
	// 1m30s true 0 0s
}

// State is a word or three. Store it anywhere; a new user starts with its zero
// value.
func ExampleCount() {
	quota := window.Quota{Limit: 2, Calendar: window.Every(time.Minute, 0)}
	used := map[string]window.Count{}
	for _, user := range []string{"ann", "ann", "bob", "ann"} {
		c, d := quota.Take(used[user], time.Second, 1)
		used[user] = c
		fmt.Println(user, d.OK)
	}
	// Output:
	// ann true
	// ann true
	// bob true
	// ann false
}

// Work that did not happen is given back.
func ExampleQuota_Refund() {
	quota := window.Quota{Sliding: true, Limit: 10, Period: time.Hour}
	counts, d := quota.Take(window.Count{}, time.Minute, 8)
	fmt.Println(d.Remaining)

	counts = quota.Refund(counts, time.Minute, 5)
	_, d = quota.Take(counts, time.Minute, 0) // a look
	fmt.Println(d.Remaining)
	// Output:
	// 2
	// 7
}

// The day on which clocks went forward had 23 hours.
func ExampleCalendar() {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	epoch := time.Date(2026, time.March, 8, 12, 0, 0, 0, newYork)
	for _, c := range []window.Calendar{
		window.Every(15*time.Minute, 0), window.Dates(window.Day, epoch, newYork),
		window.Dates(window.WeekFromSunday+window.Unit(time.Monday), epoch, newYork), window.Dates(window.Month, epoch, newYork),
	} {
		start, end := c.At(0)
		fmt.Println(epoch.Add(start).Format("Jan _2 15:04"), end-start)
	}
	// Output:
	// Mar  8 12:00 15m0s
	// Mar  8 00:00 23h0m0s
	// Mar  2 00:00 167h0m0s
	// Mar  1 00:00 743h0m0s
}
