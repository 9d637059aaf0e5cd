package server_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// saves returns a snapshot of a Server that goes on.
func (d desk) saves() []byte {
	d.t.Helper()
	var b bytes.Buffer
	must(d.t, d.Snapshot(&b, false))
	return b.Bytes()
}

func jobs(limit int) config.Rule {
	return leased("jobs", config.Concurrency{Limit: config.Limit(limit), TTL: time.Minute, MaxTTL: 3 * time.Minute})
}

// After a crash no lease is granted until each lease that the state does not know must
// have expired or been adopted. Fencing tokens increase.
func TestCrashGrantsNothingTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		last := newDesk(t, server.Config{}, jobs(10))
		known := last.leases("a", 3, 3)
		kept := last.saves()
		ids := append(known, last.leases("a", 7, 8)...)
		newest, err := last.Renew("a", ids[9], 0)
		must(t, err)
		time.Sleep(10 * time.Second)
		next, done := last.next(server.Config{Rules: last.Rules()}, kept)
		if !done.Crashed || done.Leases != 3 {
			t.Errorf("%+v", done)
		}
		for _, wait := range []bool{false, true} {
			_, err := next.Acquire(t.Context(), decider.LeaseRequest{Key: "fresh", N: 1, Wait: wait})
			check(t, "a new lease", err, error(weir.Reject(weir.Recovering, 3*time.Minute)))
		}
		for i, id := range ids[:9] {
			l, err := next.Renew("a", id, 2*time.Minute)
			if err != nil || l.ID != id || l.N != 1 || l.TTL != 2*time.Minute {
				t.Errorf("lease %d: %+v, %v", i, l, err)
			}
		}
		check(t, "in flight", next.inflight("a", 0), decider.LeaseState{Limit: 10, Inflight: 9, Recovers: 3 * time.Minute})
		check(t, "a lease that is returned", next.Return("a", newest.ID, weir.Success), nil)
		time.Sleep(2*time.Minute - time.Nanosecond)
		l, err := next.Renew("a", ids[8], time.Minute+2)
		must(t, err)
		if l.Token != newest.Token-1 {
			t.Errorf("token %d of the lease before that with %d", l.Token, newest.Token)
		}
		time.Sleep(time.Minute)
		next.leases("a", 0, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if l := next.lease("a", 9); l.Token <= newest.Token {
			t.Errorf("token %d after %d", l.Token, newest.Token)
		}
		next.leases("a", 0, 1)
	})
}

// A process that recovers may crash or end, too. Then what the process before it granted
// is still unknown.
func TestCrashInARecovery(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, jobs(3))
		cfg := server.Config{Rules: d.Rules()}
		ended := d.leases("a", 1, 1)[0]
		must(t, d.Return("a", ended, weir.Success))
		kept := d.saves()
		lives := d.leases("a", 3, 3)
		for i, end := range []func(d desk) []byte{desk.saves, desk.snapshot, desk.saves} {
			d, _ = d.next(cfg, kept)
			if i == 2 { // the other lives end in their recovery
				for range 4 {
					time.Sleep(time.Minute - 1)
					for _, id := range lives {
						_, err := d.Renew("a", id, 0)
						must(t, err)
					}
				}
			}
			kept = end(d)
			d.leases("a", 0, 1)
		}
		must(t, d.Return("a", lives[0], weir.Success))
		kept = d.saves()
		lives[0] = d.leases("a", 1, 2)[0]
		d, done := d.next(cfg, kept)
		check(t, "crashed", done.Crashed, true)
		for _, id := range lives {
			_, err := d.Renew("a", id, 0)
			check(t, "renewed", err, nil)
		}
		_, err := d.Renew("a", ended, 0)
		check(t, "what had ended", err, decider.ErrNoLease)
		d.leases("a", 0, 1)
		time.Sleep(3 * time.Minute)
		d, done = d.next(cfg, d.snapshot())
		check(t, "crashed, after a recovery that has ended", done.Crashed, false)
		d.leases("a", 3, 4)
	})
}

// A process may crash before it can save anything, such as on a full disk: the next one
// finds the state of the process before both.
func TestCrashesWithoutASave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, jobs(2))
		cfg, kept := server.Config{Rules: d.Rules()}, d.saves()
		var token uint64
		for range 3 {
			time.Sleep(4 * time.Minute) // to the end of the recovery
			last := d.leases("a", 1, 1)[0]
			l, err := d.Renew("a", last, 0)
			must(t, err)
			if l.Token <= token {
				t.Errorf("token %d after %d", l.Token, token)
			}
			token = l.Token
			d, _ = d.next(cfg, kept)
			_, err = d.Renew("a", last, 0)
			check(t, "renewed", err, nil)
		}
	})
}

// With the rules of leases missing for a while, what they leased is still unknown.
func TestRecoveryWithoutTheRule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, jobs(1))
		cfg := server.Config{Rules: d.Rules()}
		kept := d.saves()
		id := d.leases("a", 1, 1)[0]
		d, _ = d.next(server.Config{Rules: new(config.Rules)}, kept)
		d, _ = d.next(cfg, d.snapshot())
		d.leases("a", 0, 1)
		_, err := d.Renew("a", id, 0)
		check(t, "renewed", err, nil)
	})
}

// Only what the last process may have granted and not saved is adopted.
func TestAdoptsNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		last := newDesk(t, underAll(jobs(3), leased("others", config.Concurrency{Limit: 9, TTL: time.Minute, MaxTTL: 5 * time.Minute})))
		ended := last.leases("a", 1, 1)[0]
		must(t, last.Return("a", ended, weir.Success))
		kept := last.saves()
		id := last.leases("a", 1, 1)[0]
		two := last.lease("b", 2).ID
		more := []string{last.lease("c", 2).ID}
		must(t, last.Return("c", more[0], weir.Success))
		more = append(more, last.lease("c", 2).ID)
		stranger := newDesk(t, underAll(jobs(3), leased("others", config.Concurrency{Limit: 9})))
		cfg := server.Config{Rules: last.Rules()}
		next, _ := last.next(cfg, kept)
		flipped := []byte(id)
		flipped[31] ^= 1
		for what, ask := range map[string][2]string{
			"it had ended before":          {"a", ended},
			"the key of another":           {"b", id},
			"more units":                   {"a", id + "-2"},
			"fewer units":                  {"b", strings.TrimSuffix(two, "-2")},
			"one unit, written in full":    {"a", id + "-1"},
			"a seal that is wrong":         {"a", string(flipped)},
			"an id of another node":        {"a", stranger.leases("a", 1, 1)[0]},
			"a key that no rule leases":    {"", id},
			"no id":                        {"a", "x"},
			"a number beside the id":       {"a", id + "-"},
			"a number that is not written": {"b", two[:32] + "-02"},
		} {
			if l, err := next.Renew(ask[0], ask[1], 0); err != decider.ErrNoLease {
				t.Errorf("%s: %+v, %v", what, l, err)
			}
			if err := next.Return(ask[0], ask[1], weir.Success); err != decider.ErrNoLease {
				t.Errorf("%s: returned: %v", what, err)
			}
		}
		_, err := next.Renew("b", two, 0)
		must(t, err)
		_, err = next.Renew("b", two, 0)
		must(t, err)
		check(t, "in flight", next.inflight("b", 0).Inflight, 2)
		_, err = next.Renew("c", more[0], 0)
		check(t, "of an odd holder", err, nil)
		_, err = next.Renew("c", more[1], 0)
		check(t, "beyond the limit", err, decider.ErrNoLease)

		changed, _ := last.next(server.Config{Rules: &config.Rules{Rules: []config.Rule{leased("new", config.Concurrency{Limit: 9})}}}, kept)
		_, err = changed.Renew("a", id, 0)
		check(t, "of other rules", err, decider.ErrNoLease)
		clean, done := last.next(cfg, last.snapshot())
		check(t, "crashed", done.Crashed, false)
		clean.leases("a", 2, 3)
		time.Sleep(3 * time.Minute)
		_, err = next.Renew("a", id, 0)
		check(t, "after the longest time to live", err, decider.ErrNoLease)
	})
}

// The rules may be others after the crash, or be changed while it recovers: the longest
// time to live before and after it counts.
func TestRecoveryUnderOtherRules(t *testing.T) {
	short, long := jobs(1), jobs(1)
	short.Concurrency.MaxTTL, long.Concurrency.MaxTTL = time.Minute, 5*time.Minute
	for _, row := range []struct {
		rule        string
		start, then config.Rule
		want        time.Duration
	}{
		{"shorter", short, short, 3 * time.Minute},
		{"longer", long, long, 5 * time.Minute},
		{"missing at first", one("rate", quota(1, time.Hour, config.GCRA)), short, 3 * time.Minute},
		{"without leases at first", one("jobs", quota(9, time.Hour, config.GCRA)), short, 3 * time.Minute},
		{"changed", short, long, 3 * time.Minute},
	} {
		t.Run(row.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				last := newDesk(t, server.Config{}, jobs(1)) // for three minutes
				next, _ := last.next(server.Config{Rules: &config.Rules{Rules: []config.Rule{row.start}}}, last.saves())
				start := time.Now()
				time.Sleep(10 * time.Second)
				must(t, next.Reload(&config.Rules{Rules: []config.Rule{row.then}}))
				for next.lease("a", 1).ID == "" {
					time.Sleep(time.Second)
				}
				check(t, "granted after", time.Since(start), row.want)
			})
		})
	}
}

// A state that cannot be read is a crash of which nothing is known.
func TestRecover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, jobs(1))
		d.Recover()
		check(t, "time", d.Recovers(), 3*time.Minute)
		d.leases("a", 0, 1)
		time.Sleep(3 * time.Minute)
		d.leases("a", 1, 1)
	})
}

// State of rules that are missing is carried along for a day, and used when they are back.
func TestCarriedState(t *testing.T) {
	all := keptRules()
	tokens := all[:1]
	none := server.Config{Rules: &config.Rules{Rules: []config.Rule{one("other", quota(1, time.Hour, config.GCRA))}}}
	for _, row := range []struct {
		rule   string
		away   time.Duration
		reload bool
		want   int // of ten an hour
	}{
		{"at the next start", 0, false, 0},
		{"at a reload", 0, true, 0},
		{"after most of a day", 23 * time.Hour, false, 9},
		{"after a day", 24*time.Hour + 1, true, 10},
	} {
		t.Run(row.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tokens[0].Quota = quota(10, 24*time.Hour, config.GCRA)
				rules := &config.Rules{Rules: tokens}
				last := newDesk(t, server.Config{Rules: rules})
				last.allows("a", 10, 11)
				next, done := last.next(none, last.snapshot())
				check(t, "skipped", len(done.Skipped), 2)
				next, done = next.next(none, next.snapshot())
				check(t, "skipped", len(done.Skipped), 2)
				time.Sleep(row.away)
				kept := next.snapshot()
				if row.reload {
					must(t, next.Reload(rules))
				} else {
					next, _ = next.next(server.Config{Rules: rules}, kept)
				}
				if row.away > 24*time.Hour {
					check(t, "the snapshot is smaller", len(kept) < len(last.snapshot()), true)
				}
				next.allows("a", row.want, 11)
			})
		})
	}
}

// A rule that counts in another way for a while does not lose what it had counted.
func TestCarriedKinds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := func(a config.Algorithm) server.Config {
			return server.Config{Rules: &config.Rules{Rules: []config.Rule{one("r", quota(10, time.Hour, a))}}}
		}
		d := newDesk(t, rules(config.GCRA))
		d.allows("a", 10, 11)
		d, _ = d.next(rules(config.Fixed), d.snapshot())
		d.allows("a", 10, 11)
		for _, a := range []config.Algorithm{config.GCRA, config.Fixed, config.GCRA} {
			d, _ = d.next(rules(a), d.snapshot())
			d.allows("a", 0, 1)
		}
	})
}

// Leases of a rule that is missing are held, renewed and returned, over any number of
// starts without it.
func TestCarriedLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		each, all := jobs(2), jobs(3)
		all.Name, all.Per = "all", config.PerRule
		with, without := underAll(each, all), underAll(one("other", quota(1, time.Hour, config.GCRA)))
		d := newDesk(t, with)
		ids := d.leases("a", 2, 3)
		for i := range 3 {
			d, _ = d.next(without, d.snapshot())
			_, err := d.Renew("a", ids[0], 0)
			check(t, fmt.Sprint("renewed ", i), err, nil)
		}
		d, _ = d.next(with, d.snapshot())
		check(t, "of the key", d.inflight("a", 0).Inflight, 2)
		check(t, "of all", d.inflight("b", 1).Inflight, 2)
		must(t, d.Return("a", ids[0], weir.Success))
		d.leases("a", 1, 2)
	})
}

// A crash gives back what a key has used since the last save, and no more.
func TestCrashGivesBackUnsavedTokens(t *testing.T) {
	wide := one("r", quota(10, time.Hour, config.GCRA))
	wide.Per = config.PerRule
	for _, r := range []config.Rule{
		one("r", quota(10, time.Hour, config.GCRA)), one("r", quota(10, time.Hour, config.Fixed)), one("r", quota(10, time.Hour, config.Sliding)), wide,
	} {
		t.Run(string(r.Algorithm+" "+config.Algorithm(r.Per)), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, r)
				d.allows("a", 6, 6)
				settled := d.grant(1)
				kept := d.saves()
				d.allows("a", 3, 4)
				_, err := d.Settle("a", settled, 0)
				must(t, err)
				d, _ = d.next(server.Config{Rules: d.Rules()}, kept)
				d.allows("a", 3, 4)
				_, err = d.Settle("a", settled, 0) // it was settled after the save
				must(t, err)
				d.allows("a", 1, 2)
			})
		})
	}
}
