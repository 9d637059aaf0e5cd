package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/snapshot"
)

// keptRules have all that can be kept.
func keptRules() []config.Rule {
	tried := one("tokens", quota(10, 10*time.Second, config.GCRA))
	tried.Candidate = ptr(quota(5, time.Minute, config.GCRA))
	odd := quota(7, 11*time.Second, config.GCRA)
	odd.Burst = 12
	together := one("together", odd)
	together.Per = config.PerRule
	all := leased("all", config.Concurrency{Limit: 9})
	all.Per = config.PerRule
	fixed, sliding := one("fixed", quota(20, 13*time.Second, config.Fixed)), one("sliding", quota(20, 13*time.Second, config.Sliding))
	return []config.Rule{tried, together, fixed, sliding, leased("jobs", config.Concurrency{Limit: 3, TTL: 20 * time.Second}), all}
}

// snapshot returns a snapshot of the Server.
func (d desk) snapshot() []byte {
	d.t.Helper()
	var b bytes.Buffer
	must(d.t, d.Snapshot(&b, true))
	return b.Bytes()
}

// A source is a snapshot in memory.
type source struct{ *bytes.Reader }

func (source) Close() error { return nil }

func sourceOf(saved []byte) source { return source{bytes.NewReader(saved)} }

// next is the Server of the next process.
func (d desk) next(cfg server.Config, saved []byte) (desk, snapshot.Restored) {
	d.t.Helper()
	n := newDesk(d.t, cfg)
	done, err := n.Restore(sourceOf(saved))
	must(d.t, err)
	return n, done
}

// busy uses a Server in all the ways that leave something behind.
func (d desk) busy() (leases []decider.Lease, grant, settled string) {
	d.t.Helper()
	var v decider.Verdict
	for i, n := range []int{2, 1, 1, 3} {
		key := fmt.Sprint("k", i%3)
		d.Decide(&decider.Request{Key: key, N: n}, &v)
		time.Sleep(700 * time.Millisecond)
		l, err := d.Acquire(d.t.Context(), decider.LeaseRequest{Key: key, N: 1 + i%2, TTL: time.Duration(5*i+5) * time.Second})
		must(d.t, err)
		leases = append(leases, l)
	}
	d.Decide(&decider.Request{Key: "k0", N: 2}, &v)
	settled = string(d.AppendGrantID(nil, v.Grant, "k0"))
	if _, err := d.Settle("k0", settled, 0); err != nil {
		d.t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	d.Decide(&decider.Request{Key: "k0", N: 2}, &v)
	if !v.OK {
		d.t.Fatalf("%+v", v)
	}
	return leases, string(d.AppendGrantID(nil, v.Grant, "k0")), settled
}

// same checks that two Servers say the same of some keys.
func same(t *testing.T, when string, a, b desk, leases bool) {
	t.Helper()
	synctest.Wait()
	for _, key := range []string{"k0", "k1", "k2", "fresh"} {
		x, y := a.Explain(key), b.Explain(key)
		for i := range x.Rules {
			p, q := x.Rules[i], y.Rules[i]
			p.Rule, q.Rule, p.Denied, q.Denied = nil, nil, 0, 0
			if (p.ResetAfter - q.ResetAfter).Abs() <= 2 { // of one bucket, the fraction is kept as a float
				q.ResetAfter = p.ResetAfter
			}
			if leases && p.Lease != nil && q.Lease != nil {
				check(t, fmt.Sprintf("%s: leases of %q under rule %d", when, key, i), *q.Lease, *p.Lease)
			}
			p.Lease, q.Lease = nil, nil
			check(t, fmt.Sprintf("%s: %q under rule %d", when, key, i), q, p)
		}
	}
	if !leases {
		return
	}
	x, y := a.Stats(), b.Stats()
	check(t, when+": leases", y.Leases, x.Leases)
	for i := range x.Rules {
		check(t, fmt.Sprintf("%s: units held under rule %d", when, i), y.Rules[i].Leases.Held, x.Rules[i].Leases.Held)
	}
}

// The next Server is as the last one would have been, had it gone on: at once,
// later, and when the time that has passed meanwhile counts.
func TestRestartLosesNothing(t *testing.T) {
	for _, away := range []time.Duration{0, time.Second, 7 * time.Second, time.Minute} {
		t.Run(fmt.Sprint("away for ", away), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				last := newDesk(t, underAll(keptRules()...))
				time.Sleep(time.Hour) // clocks differ
				leases, grant, settled := last.busy()
				kept := last.snapshot()
				held := last.Stats().Leases
				time.Sleep(away)
				next, done := last.next(underAll(keptRules()...), kept)
				check(t, "rules", done.Rules, 4)
				check(t, "leases", done.Leases, held)
				check(t, "skipped", len(done.Skipped), 0)
				leasesToo := away == 0 // while there is no Server, leases do not expire
				same(t, "at once", last, next, leasesToo)
				if _, err := next.Settle("k0", settled, 0); err != decider.ErrNoGrant {
					t.Errorf("settled twice: %v", err)
				}
				for _, d := range []desk{last, next} {
					s, err := d.Settle("k0", grant, 1)
					must(t, err)
					check(t, "charged", s.Was, 2)
					last := d.lease("fresh", 1)
					if last.Token <= leases[len(leases)-1].Token {
						t.Errorf("token %d after %d", last.Token, leases[len(leases)-1].Token)
					}
				}
				a, b := last.tried(), next.tried()
				check(t, "of the candidate", b, a)
				for range 60 {
					time.Sleep(500*time.Millisecond + 1)
					same(t, "later", last, next, leasesToo)
				}
			})
		})
	}
}

// tried asks for two tokens of some keys, and returns how many of these requests the
// candidate of the first rule would have denied.
func (d desk) tried() uint64 {
	was := d.Stats().Rules[0].TrialDenied
	for _, key := range []string{"k0", "k1", "k2"} {
		d.ask(key, 2)
	}
	return d.Stats().Rules[0].TrialDenied - was
}

// What was leased is renewed and returned at the next Server, and waited for.
func TestRestoredLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		jobs := leased("jobs", config.Concurrency{Limit: 2, TTL: time.Minute, MaxTTL: time.Hour})
		last := newDesk(t, server.Config{}, jobs)
		ids := last.leases("a", 2, 2)
		next, _ := last.next(server.Config{Rules: last.Rules()}, last.snapshot())
		next.leases("a", 0, 1)
		time.Sleep(time.Second)
		l, err := next.Renew("a", ids[0], 2*time.Hour)
		must(t, err)
		check(t, "renewed", l, decider.Lease{ID: ids[0], Key: "a", N: 1, Token: l.Token, TTL: time.Hour, Limit: 2, Inflight: 2})
		waits := []<-chan string{next.line(t.Context(), "a", 1), next.line(t.Context(), "a", 1)}
		must(t, next.Return("a", ids[0], weir.Success))
		_, err = next.Acquire(t.Context(), decider.LeaseRequest{Key: "a", N: 1})
		check(t, "nobody knows how long the work took", err, error(weir.Reject(weir.OverLimit, 0)))
		check(t, "first in line", ended(waits[0]), "granted after 0s")
		check(t, "second in line", ended(waits[1]), still)
		time.Sleep(time.Minute)
		check(t, "second in line", ended(waits[1]), "granted after 59s")
		if err := next.Return("a", ids[1], weir.Success); err != decider.ErrNoLease {
			t.Errorf("returned after it has run out: %v", err)
		}
	})
}

// Rules may be others by then.
func TestRestoreUnderOtherRules(t *testing.T) {
	rules := func(change func(r []config.Rule) []config.Rule) server.Config {
		return underAll(change(keptRules())...)
	}
	for _, row := range []struct {
		rule  string
		next  server.Config
		done  snapshot.Restored
		state decider.LeaseState // of k0, of which three units were leased
	}{
		{"a limit that is less", rules(func(r []config.Rule) []config.Rule {
			r[4].Concurrency.Limit = 1
			return r
		}), snapshot.Restored{Rules: 4, Leases: 4}, decider.LeaseState{Limit: 1, Inflight: 3}},
		{"a limit that is to be found", rules(func(r []config.Rule) []config.Rule {
			r[4].Concurrency.Limit, r[4].Concurrency.Max = config.Auto, 2
			return r
		}), snapshot.Restored{Rules: 4, Leases: 4}, decider.LeaseState{Limit: 2, Inflight: 3}},
		{"a rule that is gone", rules(func(r []config.Rule) []config.Rule { return r[1:] }),
			snapshot.Restored{Rules: 3, Leases: 4, Skipped: []string{
				`the counts of rule "tokens": it is gone`, `the candidate's counts of rule "tokens": it is gone`,
			}}, decider.LeaseState{Limit: 3, Inflight: 3}},
		{"a rule that counts in another way", rules(func(r []config.Rule) []config.Rule {
			r[1].Per, r[0].Candidate = config.PerKey, nil
			return r
		}), snapshot.Restored{Rules: 3, Leases: 4, Skipped: []string{
			`the candidate's counts of rule "tokens": it counts in another way now`,
			`the counts of rule "together": it counts in another way now`,
		}}, decider.LeaseState{Limit: 3, Inflight: 3}},
		{"a rule that leases no more, beside one that does", rules(func(r []config.Rule) []config.Rule {
			return append(r[:5:5], leased("all", config.Concurrency{Limit: 9}))
		}), snapshot.Restored{Rules: 4, Leases: 4}, decider.LeaseState{Limit: 3, Inflight: 3}},
		{"no rule that leases", rules(func(r []config.Rule) []config.Rule {
			return append(r[:4:4], leased("others", config.Concurrency{Limit: 1}))
		}), snapshot.Restored{Rules: 4, Leases: 4}, decider.LeaseState{Limit: 1}},
		{"fewer leases at most", func() server.Config {
			cfg := rules(slices.Clone)
			cfg.MaxLeases = 1
			return cfg
		}(), snapshot.Restored{Rules: 4, Leases: 4}, decider.LeaseState{Limit: 3, Inflight: 3}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				last := newDesk(t, underAll(keptRules()...))
				last.busy()
				next, done := last.next(row.next, last.snapshot())
				if !reflect.DeepEqual(done, row.done) {
					t.Errorf("%+v\nwant %+v", done, row.done)
				}
				for _, r := range next.Explain("k0").Rules {
					if r.Lease == nil || r.Rule.Name == "all" {
						continue
					}
					check(t, r.Rule.Name, *r.Lease, row.state)
				}
			})
		})
	}
}

// No two grants have one id, also if no time passes at all.
func TestGrantsAfterRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("all", quota(10, time.Hour, config.GCRA)))
		for range 3 {
			v := d.ask("a", 1)
			if _, err := d.Settle("a", string(d.AppendGrantID(nil, v.Grant, "a")), 0); err != nil {
				t.Error(err)
			}
			d, _ = d.next(server.Config{Rules: d.Rules()}, d.snapshot())
		}
	})
}

// A rule that has come since has given nothing: nothing is charged to it.
func TestRestoredGrantOfAnotherRule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		last := newDesk(t, server.Config{}, one("old", quota(10, time.Hour, config.GCRA)))
		time.Sleep(time.Second)
		v := last.ask("a", 2)
		id := string(last.AppendGrantID(nil, v.Grant, "a"))
		time.Sleep(2 * time.Millisecond) // ids tell the time in whole ones
		next, _ := last.next(server.Config{Rules: &config.Rules{Rules: []config.Rule{one("new", quota(10, time.Hour, config.GCRA))}}}, last.snapshot())
		next.Settle("a", id, 8)
		check(t, "used", next.Explain("a").Rules[0].Used, 0)
	})
}

// The limit that Auto has found is where it goes on.
func TestAutoIsRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		last := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Max: 100}))
		last.work("a", 40, 2*time.Second, func() { time.Sleep(10 * time.Millisecond) })
		last.work("b", 20, 2*time.Second, func() { time.Sleep(10 * time.Millisecond) })
		last.lease("b", 5)
		next, _ := last.next(server.Config{Rules: last.Rules()}, last.snapshot())
		for _, key := range []string{"a", "b"} {
			was, is := last.inflight(key, 0), next.inflight(key, 0)
			check(t, "limit of "+key, is, was)
			if was.Limit == next.inflight("c", 0).Limit {
				t.Errorf("%q: nothing was found", key)
			}
		}
		check(t, "limits", next.Stats().Rules[0].Leases.Limit, last.Stats().Rules[0].Leases.Limit)
		all := decider.LeaseRequest{Key: "b", N: last.inflight("b", 0).Limit}
		_, was := last.Acquire(t.Context(), all)
		_, is := next.Acquire(t.Context(), all)
		check(t, "how long leases are held", is, was)
		if was.(*weir.Rejection).RetryAfter == 0 {
			t.Error("nothing is known of that")
		}
		for i := range 1100 {
			l := next.lease(fmt.Sprint(i), 1)
			must(t, next.Return(l.Key, l.ID, weir.Success))
		}
		check(t, "keys, beside that which is in use", next.Stats().Rules[0].Leases.Keys, 1024+1)
	})
}

// Windows of overlays are found by their period.
func TestRestoreMerged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base, narrow := one("base", quota(10, time.Hour, config.Fixed)), one("narrow", quota(2, 2*time.Hour, config.Fixed))
		narrow.Glob = "n*"
		cfg := func() server.Config {
			return server.Config{Rules: &config.Rules{Merge: true, Rules: []config.Rule{base, narrow}}}
		}
		last := newDesk(t, cfg())
		last.allows("n", 2, 3)
		last.allows("m", 4, 4)
		next, done := last.next(cfg(), last.snapshot())
		check(t, "rules", done.Rules, 2)
		next.allows("n", 0, 1)
		next.allows("m", 6, 7)
		_, done = last.next(server.Config{Rules: &config.Rules{Merge: true, Rules: []config.Rule{base}}}, last.snapshot())
		check(t, "skipped", len(done.Skipped), 1)
	})
}

// Grants are good after a restart, also of rules that have their windows in common.
func TestRestoredGrantsOfMergedRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base, narrow := one("base", quota(10, time.Hour, config.Fixed)), one("narrow", quota(2, time.Hour, config.Fixed))
		narrow.Glob = "n*"
		cfg := server.Config{Rules: &config.Rules{Merge: true, Rules: []config.Rule{base, narrow}}}
		last := newDesk(t, cfg)
		ids := map[string]string{}
		for _, key := range []string{"n", "m"} {
			v := last.ask(key, 1)
			ids[key] = string(last.AppendGrantID(nil, v.Grant, key))
		}
		time.Sleep(time.Second)
		next, _ := last.next(cfg, last.snapshot())
		for key, id := range ids {
			check(t, key+", used", next.Explain(key).Rules[0].Used, 1)
			got, err := next.Settle(key, id, 0)
			check(t, key, err, nil)
			check(t, key, got, decider.Settlement{Was: 1})
		}
	})
}

// A debt, and a part of a token, of the one bucket of a rule.
func TestRestoreOneBucket(t *testing.T) {
	for _, row := range []struct {
		rule string
		took []int // the last is settled for
		true int
		away time.Duration
		want time.Duration // until there is a token
	}{
		{"a part of a token that has come", []int{4}, 4, time.Second, 9 * time.Second},
		{"a part of it while nobody was there", []int{4}, 4, 13 * time.Second, 0},
		{"a debt", []int{4}, 6, 0, 30 * time.Second},
		{"a debt, in part", []int{1, 3}, 5, 5 * time.Second, 25 * time.Second},
		{"nothing", []int{0}, 0, 0, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := one("one", quota(4, 40*time.Second, config.GCRA))
				r.Per = config.PerRule
				last := newDesk(t, server.Config{}, r)
				var v decider.Verdict
				for _, n := range row.took {
					last.Decide(&decider.Request{Key: "a", N: n}, &v)
				}
				if row.true > 0 {
					n := row.took[len(row.took)-1]
					if _, err := last.Settle("a", string(last.AppendGrantID(nil, v.Grant, "a")), row.true); err != nil {
						t.Fatal(n, err)
					}
				}
				kept := last.snapshot()
				time.Sleep(row.away)
				next, _ := last.next(server.Config{Rules: last.Rules()}, kept)
				for _, d := range []desk{last, next} {
					check(t, "a token comes after", d.Explain("b").Rules[0].RetryAfter, row.want)
				}
			})
		})
	}
}

// What is not a whole snapshot is an error, and changes nothing.
func TestRestoreSpoilt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		last := newDesk(t, underAll(keptRules()...))
		last.busy()
		kept := last.snapshot()
		next := newDesk(t, underAll(keptRules()...))
		fresh := newDesk(t, underAll(keptRules()...))
		try := func(what string, b []byte) {
			t.Helper()
			if done, err := next.Restore(source{bytes.NewReader(b)}); err == nil || done.Rules+done.Leases > 0 {
				t.Errorf("%s: %v, %v", what, done, err)
			}
		}
		for n := 0; n < len(kept); n += 1 + n/100 {
			try(fmt.Sprint("cut to ", n), kept[:n])
			flipped := slices.Clone(kept)
			flipped[n] ^= 1 << (n % 8)
			try(fmt.Sprint("a bit is flipped in ", n), flipped)
		}
		try("more than a snapshot", append(slices.Clone(kept), 0))
		try("another thing", []byte("weirkey1, but not this"))
		same(t, "after all", fresh, next, true)
		if _, err := next.Restore(source{bytes.NewReader(kept)}); err != nil {
			t.Error(err)
		}
	})
}

func TestSaveFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "state")
		last := newDesk(t, underAll(keptRules()...))
		if _, err := last.LoadFile(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is not there: %v", err)
		}
		last.busy()
		must(t, os.WriteFile(path+".new", make([]byte, 1<<20), 0o644)) // what a process that was killed has left
		for range 2 {                                                  // the second is in place of the first
			must(t, last.SaveFile(path, true))
		}
		next := newDesk(t, underAll(keptRules()...))
		done, err := next.LoadFile(path)
		must(t, err)
		check(t, "leases", done.Leases, 4)
		same(t, "at once", last, next, true)
		files, err := os.ReadDir(dir)
		must(t, err)
		check(t, "files", len(files), 1)
		info, err := files[0].Info()
		must(t, err)
		check(t, "permissions", info.Mode().Perm(), 0o600)
		if err := last.SaveFile(filepath.Join(dir, "none", "state"), true); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a directory that is not there: %v", err)
		}
		if err := last.SaveFile(dir, true); err == nil {
			t.Error("a file in place of a directory")
		}
		left, err := filepath.Glob(dir + "*")
		must(t, err)
		check(t, "files that are left beside a directory", len(left), 1)
	})
}

// FuzzRestore: whatever a snapshot says, it is restored or refused, and the Server
// works.
func FuzzRestore(f *testing.F) {
	s, err := server.New(underAll(keptRules()...))
	if err != nil {
		f.Fatal(err)
	}
	for _, key := range []string{"k0", "k0", "k1"} {
		_ = s.Decide(context.Background(), &decider.Request{Key: key, N: 2}, new(decider.Verdict))
		if _, err := s.Acquire(f.Context(), decider.LeaseRequest{Key: key, N: 1}); err != nil {
			f.Fatal(err)
		}
	}
	var kept bytes.Buffer
	if err := s.Snapshot(&kept, true); err != nil {
		f.Fatal(err)
	}
	f.Add(kept.Bytes()[:kept.Len()-4]) // the checksum is put to it
	f.Fuzz(func(t *testing.T, b []byte) {
		bubble(t, func(t *testing.T) {
			d := newDesk(t, underAll(keptRules()...))
			b = binary.LittleEndian.AppendUint32(slices.Clip(b), crc32.ChecksumIEEE(b[min(len("weirsrv3r"), len(b)):]))
			_, err := d.Restore(source{bytes.NewReader(b)})
			if err != nil {
				same(t, "after an error", newDesk(t, underAll(keptRules()...)), d, true)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			d.Acquire(ctx, decider.LeaseRequest{Key: "k0", N: 1, Wait: true})
			d.ask("k0", 1)
			time.Sleep(time.Hour)
			synctest.Wait()
			d.Stats()
			d.snapshot()
		})
	})
}
