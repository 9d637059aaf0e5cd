package server_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// dated is a rule for every key that counts in calendar windows.
func dated(n int, period time.Duration, zone string) config.Rule {
	q := quota(n, period, config.Calendar)
	q.Zone = zone
	return one("r", q)
}

// until sleeps until an instant.
func until(t *testing.T, instant string) {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, instant)
	must(t, err)
	time.Sleep(time.Until(at))
}

// A window begins and ends where the calendar of the zone says. Bubbles begin in 2000, a leap
// year; clocks in Berlin changed on 26 March and on 29 October.
func TestCalendarWindows(t *testing.T) {
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	for _, c := range []struct {
		name, zone string
		period     time.Duration
		start, end string
		lasts      time.Duration
	}{
		{"a minute", "", time.Minute, "2000-02-29T12:34:00Z", "2000-02-29T12:35:00Z", time.Minute},
		{"an hour", "Asia/Kolkata", time.Hour, "2000-02-29T12:00:00+05:30", "2000-02-29T13:00:00+05:30", time.Hour},
		{"a day", "Europe/Berlin", day, "2000-02-29T00:00:00+01:00", "2000-03-01T00:00:00+01:00", day},
		{"a day of 23 hours", "Europe/Berlin", day, "2000-03-26T00:00:00+01:00", "2000-03-27T00:00:00+02:00", 23 * time.Hour},
		{"a day of 25 hours", "Europe/Berlin", day, "2000-10-29T00:00:00+02:00", "2000-10-30T00:00:00+01:00", 25 * time.Hour},
		{"the hour before clocks go forward", "Europe/Berlin", time.Hour, "2000-03-26T01:00:00+01:00", "2000-03-26T03:00:00+02:00", time.Hour},
		{"the hour before they go back", "Europe/Berlin", time.Hour, "2000-10-29T02:00:00+02:00", "2000-10-29T02:00:00+01:00", time.Hour},
		{"a week", "", week, "2000-02-28T00:00:00Z", "2000-03-06T00:00:00Z", week},
		{"a week with a short day", "Europe/Berlin", week, "2000-03-20T00:00:00+01:00", "2000-03-27T00:00:00+02:00", week - time.Hour},
		{"February of a leap year", "America/New_York", config.Month, "2000-02-01T00:00:00-05:00", "2000-03-01T00:00:00-05:00", 29 * day},
		{"February", "America/New_York", config.Month, "2001-02-01T00:00:00-05:00", "2001-03-01T00:00:00-05:00", 28 * day},
		{"the last month of a year", "", config.Month, "2000-12-01T00:00:00Z", "2001-01-01T00:00:00Z", 31 * day},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, dated(3, c.period, c.zone))
				until(t, c.start)
				v := d.ask("k", 1)
				check(t, "reset", v.Answers[0].ResetAfter, c.lasts)
				d.allows("k", 2, 3)
				until(t, c.end)
				d.allows("k", 3, 4)
				check(t, "used in the next window", d.Explain("k").Rules[0].Used, 3)
			})
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, dated(3, c.period, c.zone))
				until(t, c.start)
				d.allows("k", 3, 3)
				end, err := time.Parse(time.RFC3339, c.end)
				must(t, err)
				time.Sleep(time.Until(end) - 1)
				v := d.ask("k", 1)
				check(t, "allowed a nanosecond before the end", v.OK, false)
				check(t, "retry", v.RetryAfter, 1)
				time.Sleep(time.Nanosecond)
				d.allows("k", 3, 4)
			})
		})
	}
}

// An oracle counts requests at random instants by the date that clocks show.
func TestCalendarAgainstOracle(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Pacific/Auckland", "Asia/Kathmandu"} {
		loc, err := config.Quota{Zone: zone}.Location()
		must(t, err)
		for period, name := range map[time.Duration]func(t time.Time) any{
			time.Hour: func(t time.Time) any { // clocks that go back show an hour twice: two windows
				_, offset := t.Zone()
				return (t.Unix() + int64(offset)%3600) / 3600
			},
			24 * time.Hour:     func(t time.Time) any { y, m, d := t.Date(); return [3]int{y, int(m), d} },
			7 * 24 * time.Hour: func(t time.Time) any { y, w := t.ISOWeek(); return [2]int{y, w} },
			config.Month:       func(t time.Time) any { return [2]int{t.Year(), int(t.Month())} },
		} {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, dated(5, period, zone))
				random := rand.New(rand.NewPCG(1, uint64(period)))
				var last any
				used := 0
				for i := range 3000 {
					time.Sleep(time.Duration(random.Int64N(int64(period) / 3)))
					if window := name(time.Now().In(loc)); window != last {
						last, used = window, 0
					}
					n := 1 + random.IntN(3)
					fits := used+n <= 5
					if fits {
						used += n
					}
					if v := d.ask("k", n); v.OK != fits || v.Answers[0].Remaining != 5-used {
						t.Fatalf("%s, %v, request %d at %v: %+v: want %v with %d used", zone, period, i, time.Now().In(loc), v, fits, used)
					}
				}
			})
		}
	}
}

// A reload with another zone keeps what was used: it counts in the window of the new zone. A
// snapshot keeps it too, until the window ends.
func TestCalendarReloadAndSnapshot(t *testing.T) {
	var kept []byte
	at := func(d desk) time.Duration { return d.ask("k", 0).Answers[0].ResetAfter }
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, dated(5, 24*time.Hour, "Europe/Berlin"))
		until(t, "2000-07-01T12:00:00Z")
		d.allows("k", 3, 3)
		check(t, "reset in Berlin", at(d), 10*time.Hour)
		must(t, d.Reload(&config.Rules{Rules: []config.Rule{dated(5, 24*time.Hour, "America/New_York")}}))
		check(t, "reset in New York", at(d), 16*time.Hour)
		d.allows("k", 2, 3)
		kept = d.snapshot()
	})
	for instant, want := range map[string]int{"2000-07-02T03:59:59Z": 0, "2000-07-02T04:00:00Z": 5} {
		bubble(t, func(t *testing.T) {
			until(t, instant)
			d := newDesk(t, server.Config{}, dated(5, 24*time.Hour, "America/New_York"))
			_, err := d.Restore(sourceOf(kept))
			must(t, err)
			d.allows("k", want, 6)
		})
	}
}

// A cost that is settled in the window of its request is given back, and not in the next one.
func TestCalendarSettle(t *testing.T) {
	for settled, want := range map[string]int{"2000-10-29T22:59:59Z": 3, "2000-10-29T23:00:00Z": 5} {
		bubble(t, func(t *testing.T) {
			d := newDesk(t, server.Config{}, dated(5, 24*time.Hour, "Europe/Berlin"))
			until(t, "2000-10-29T22:30:00Z") // after 24.5 of 25 hours
			id := d.grant(5)
			until(t, settled)
			_, err := d.Settle("a", id, 2)
			must(t, err)
			d.allows("a", want, 6)
		})
	}
}

// A grant lives for an hour, also at the beginning of a day of 25 hours.
func TestCalendarGrantLife(t *testing.T) {
	for after, want := range map[time.Duration]error{time.Hour - time.Second: nil, time.Hour + time.Minute: decider.ErrNoGrant} {
		bubble(t, func(t *testing.T) {
			d := newDesk(t, server.Config{}, dated(5, 24*time.Hour, "Europe/Berlin"))
			until(t, "2000-10-28T22:00:00Z")
			id := d.grant(5)
			time.Sleep(after)
			if _, err := d.Settle("a", id, 2); !errors.Is(err, want) {
				t.Errorf("after %v: %v: want %v", after, err, want)
			}
		})
	}
}

// Instances that share limits refuse calendar windows when they load them.
func TestCalendarIsNotShared(t *testing.T) {
	rules := &config.Rules{Rules: []config.Rule{dated(5, 24*time.Hour, "")}}
	const want = `server: rule "r": algorithm: calendar counts in one process: instances cannot share its windows through a store or an upstream`
	refuses := func(what string, err error) {
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v: want %s", what, err, want)
		}
	}
	_, err := server.New(server.Config{Rules: rules}.Sharing(false))
	refuses("a check for a store", err)
	_, err = server.NewShared(server.Config{Rules: rules}, server.StoreConfig{})
	refuses("a store", err)
	up := newDesk(t, server.Config{Rules: rules})
	_, err = server.NewTier(server.Config{Rules: rules}, server.TierConfig{Name: "leaf", Upstream: up.Server, Assigner: noAssigner{}})
	refuses("an upstream", err)
	tier, err := server.NewTier(server.Config{}, server.TierConfig{Name: "leaf", Upstream: up.Server, Assigner: noAssigner{}})
	must(t, err)
	defer tier.Disconnect(t.Context())
	refuses("a reload", tier.Reload(rules))
	fallback, err := server.NewFallback(server.Config{Rules: rules}, "")
	must(t, err) // a member of a fleet decides by its share while the owner is away
	fallback.Close(true)
}

type noAssigner struct{}

func (noAssigner) Exchange(context.Context, *leaf.Exchange) (leaf.Answer, error) {
	return leaf.Answer{}, context.Canceled
}

// A leaf gets no assignment of a key that a calendar window limits, also if it had one before a
// reload: it asks about each request. A rule in shadow mode limits nothing.
func TestCalendarIsNotAssigned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(1000, time.Second, config.GCRA)))
		time.Sleep(time.Minute) // a server that has just begun learns
		exchange := func() leaf.Assignment {
			var got decider.LeafAnswer
			must(t, d.Exchange(t.Context(), &decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "l", Reports: []leaf.Report{{Key: "k", Wants: 10}}}}, &got))
			return got.Assignments[0]
		}
		if a := exchange(); a.Error != "" || a.Rate == 0 {
			t.Errorf("%+v: want an assignment", a)
		}
		rule := dated(1000, time.Minute, "")
		for range 2 {
			must(t, d.Reload(&config.Rules{Rules: []config.Rule{rule}}))
			for range 2 {
				if a := exchange(); a.Rate != 0 || !strings.Contains(a.Error, "calendar windows") {
					t.Errorf("%+v: want an error", a)
				}
			}
		}
		check(t, "refused", d.Stats().Leaves.Refused, 0)
		rule.Mode = config.Shadow
		must(t, d.Reload(&config.Rules{Rules: []config.Rule{rule}}))
		if a := exchange(); a.Error != "" || !a.Unlimited {
			t.Errorf("%+v: want no limit", a)
		}
	})
}
