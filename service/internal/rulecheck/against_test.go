package rulecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/decisionlog"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

const againstSeparators = "|=:/?&,; "

// A pair is a server under old rules whose decisions are recorded, and one under new rules that decides the same requests.
type pair struct {
	t        *testing.T
	rec      *decisionlog.Recorder
	old, new decider.Decider
	rules    *config.Rules
	salt     decisionlog.Salt
	want     Against
	text     string // of the new rules
}

func load(t testing.TB, text string) *config.Rules {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	testrig.Must(t, os.WriteFile(path, []byte(text), 0o600))
	rules, err := config.LoadWith(path, config.RateLimitOptions{Algorithm: config.FixedWindow})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// newPair makes a pair in a bubble.
func newPair(t *testing.T, was, is string) *pair {
	p := &pair{t: t, rec: decisionlog.New(), rules: load(t, is), salt: decisionlog.NewSalt(), text: is}
	start := func(rules *config.Rules) *server.Server {
		s, err := server.New(server.Config{Rules: rules, OwnQuotas: true, MaxLimit: 1000, MaxQueue: 1000})
		testrig.Must(t, err)
		return s
	}
	old := start(load(t, was))
	p.rec.Follow(old.Now)
	p.old, p.new = decisionlog.Record(old, p.rec), start(p.rules)
	return p
}

// note notes what was, and what the new rules have decided.
func (p *pair) note(was, is bool) {
	p.want.Requests++
	for _, c := range []struct {
		counter *int
		is      bool
	}{{&p.want.Denied.Then, !was}, {&p.want.Denied.Now, !is}, {&p.want.More, was && !is}, {&p.want.Less, !was && is}} {
		if c.is {
			*c.counter++
		}
	}
}

func (p *pair) decide(req decider.Request) (ok bool) {
	var was, is decider.Verdict
	mine := req
	testrig.Must(p.t, p.old.Decide(p.t.Context(), &req, &was))
	err := p.new.Decide(p.t.Context(), &mine, &is)
	p.note(was.OK, is.OK && err == nil)
	if was.OK && req.WantID && rand.IntN(2) == 0 {
		cost := rand.IntN(2 * req.N)
		_, err := p.old.Settle(p.t.Context(), req.Key, string(p.old.AppendGrantID(nil, was.Grant, req.Key)), cost)
		testrig.Must(p.t, err)
		if is.OK {
			_, err := p.new.Settle(p.t.Context(), req.Key, string(p.new.AppendGrantID(nil, is.Grant, req.Key)), cost)
			testrig.Must(p.t, err)
		}
	}
	return was.OK
}

func (p *pair) batch(keys []string, all, descriptors bool) {
	var reqs, mine []decider.Request
	for _, key := range keys {
		reqs = append(reqs, decider.Request{Key: key, N: 1})
	}
	mine = append(mine, reqs...)
	was, is := make([]decider.Verdict, len(reqs)), make([]decider.Verdict, len(reqs))
	decide := func(d decider.Decider, reqs []decider.Request, verdicts []decider.Verdict) bool {
		f := d.Batch
		if descriptors {
			f = d.Descriptors
		}
		ok, err := f(p.t.Context(), reqs, all, verdicts)
		testrig.Must(p.t, err)
		return ok
	}
	wasOK, isOK := decide(p.old, reqs, was), decide(p.new, mine, is)
	if all || descriptors {
		p.note(wasOK, isOK)
		return
	}
	for i := range was {
		p.note(was[i].OK, is[i].OK)
	}
}

// file writes the recording.
func (p *pair) file() string {
	var b bytes.Buffer
	w := decisionlog.NewWriter(&b, p.rec.Epoch(), decisionlog.Info{Separators: againstSeparators, SaltID: p.salt.ID(), MaxLimit: 1000, MaxQueue: 1000, OwnQuotas: true}, p.salt)
	testrig.Must(p.t, p.rec.Drain(w))
	path := filepath.Join(p.t.TempDir(), "a"+decisionlog.Ext)
	testrig.Must(p.t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func (p *pair) replay(keys ...string) *Against {
	p.t.Helper()
	got, err := Replay(context.Background(), load(p.t, p.text), server.Config{}, Recording{Files: []string{p.file()}, Salt: &p.salt, Keys: keys})
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

const manyUsers = `
rules:
  - {name: paid, glob: "user:paid:*", rate: 40/s, burst: 60, queue: 0}
  - {name: users, glob: "user:*", rate: 10/s, burst: 20, queue: 0}
  - {name: posts, domain: edge, entries: {method: POST, path: "/api/*"}, rate: 5/s, queue: 0}
  - {name: rest, glob: "*", per: rule, rate: 100/s, queue: 0, own_quota: true}
`

// The rules deny the same requests in a replay and in a server.
func TestReplayIsWhatReallyHappens(t *testing.T) {
	for name, is := range map[string]string{
		"the same": manyUsers,
		"stricter": `
rules:
  - {name: first, key: "user:1", rate: 0/s, queue: 0}
  - {name: numbers, regex: "^user:[0-9]+$", rate: 3/s, burst: 9, queue: 0}
  - {name: paid, glob: "user:paid:*", rate: 10/s, algorithm: sliding, queue: 0, max_debt: 5}
  - {name: words, regex: "^(login|logout):", rate: 2/s, per: rule, queue: 0}
  - {name: minutes, glob: "*:x", rate: 100/m, algorithm: calendar, zone: Europe/Berlin, queue: 0}
  - {name: posts, domain: edge, entries: {path: "/api/items"}, rate: 3/s, algorithm: fixed, queue: 0}
`,
		"all": `
apply: all
unmatched: deny
rules:
  - {name: each, glob: "*", rate: 8/s, burst: 8, queue: 0, own_quota: true}
  - {name: users, glob: "user:*", rate: 300/s, per: rule, queue: 0, own_quota: true}
  - {name: tried, glob: "login:*", rate: 1/s, mode: shadow, queue: 0}
`,
		"envoy": `
domain: edge
descriptors:
- {key: path, value: "/api/*", rate_limit: {unit: second, requests_per_unit: 3}}
- {key: path, rate_limit: {unit: minute, requests_per_unit: 200}}
- key: method
  value: POST
  rate_limit: {unit: second, requests_per_unit: 9}
  descriptors: [{key: path, rate_limit: {unit: second, requests_per_unit: 2}}]
`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(37 * time.Second)
				p, rng := newPair(t, manyUsers, is), rand.New(rand.NewPCG(1, 2))
				for range 20_000 {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(2*time.Millisecond)))
					user := fmt.Sprintf("user:%d", rng.IntN(30))
					switch rng.IntN(12) {
					case 0:
						p.decide(decider.Request{Key: "user:paid:jane", N: 1 + rng.IntN(3), WantID: true})
					case 1:
						p.decide(decider.Request{Key: []string{"login:jane", "logout:jane", "other:x"}[rng.IntN(3)], N: 1})
					case 2:
						p.batch([]string{user, "user:paid:bob"}, true, false)
					case 3:
						p.batch([]string{user, "user:jane"}, false, false)
					case 4, 5:
						p.batch([]string{"edge|method=POST|path=/api/items", "edge|path=/api/v1%7C", "edge|path=/x"}, false, true)
					case 6:
						p.decide(decider.Request{Key: "own:" + user, N: 1, Quota: &decider.Quota{Count: 5, Period: time.Second}})
					case 7:
						p.decide(decider.Request{Key: user, N: 1, Limit: 2})
					default:
						p.decide(decider.Request{Key: user, N: 1})
					}
				}
				got := p.replay()
				same := got.Requests == p.want.Requests && got.Denied.Then == p.want.Denied.Then
				off := func(a, b int) bool { return math.Abs(float64(a-b)) > 0.0005*float64(p.want.Requests) }
				if !same || got.Unknown.Requests > 0 || off(got.Denied.Now, p.want.Denied.Now) || off(got.More, p.want.More) || off(got.Less, p.want.Less) {
					t.Errorf("%+v\nwant %+v", got, p.want)
				}
				t.Logf("%d requests; denied: %d, would be %d (%d), more %d (%d)", got.Requests, got.Denied.Then, got.Denied.Now, p.want.Denied.Now, got.More, p.want.More)
				if name == "the same" && got.More+got.Less > 0 {
					t.Errorf("the same rules: %d more, %d less", got.More, got.Less)
				}
			})
		})
	}
}

// Requests that wait are allowed if their tokens come in time, as by the server.
func TestReplayWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, `rules: [{glob: "*", rate: 1000/s}]`, `rules: [{name: slow, glob: "a:*", rate: 10/s, burst: 1, queue: 5, max_wait: 300ms}]`)
		type both struct{ was, is bool }
		const n = 400
		done := make(chan both, n)
		for range n {
			time.Sleep(40 * time.Millisecond)
			go func() {
				var b both
				var v decider.Verdict
				_ = p.old.Wait(t.Context(), &decider.Request{Key: "a:1", N: 1}, &v)
				b.was = v.OK
				_ = p.new.Wait(t.Context(), &decider.Request{Key: "a:1", N: 1}, &v)
				b.is = v.OK
				done <- b
			}()
		}
		for range n {
			b := <-done
			p.note(b.was, b.is)
		}
		got := p.replay()
		if off := got.Denied.Now - p.want.Denied.Now; off < -2 || off > 2 || got.Requests != n || p.want.Denied.Now < 100 || !strings.Contains(strings.Join(got.Warnings, "\n"), "would have waited") {
			t.Errorf("%+v\nwant %+v", got, p.want)
		}
	})
}

// The grant of a request that waited is settled, too.
func TestReplaySettlesAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := `rules: [{glob: "*", rate: 10/s, burst: 10}]`
		p := newPair(t, rules, rules)
		take := func(f func(context.Context, *decider.Request, *decider.Verdict) error, n int) (v decider.Verdict) {
			testrig.Must(t, f(t.Context(), &decider.Request{Key: "a", N: n, WantID: true}, &v))
			if !v.OK {
				t.Fatalf("%d are denied: %+v", n, v)
			}
			return v
		}
		take(p.old.Decide, 10)
		v := take(p.old.Wait, 5)
		if v.Waited == 0 {
			t.Fatal("it does not wait")
		}
		time.Sleep(100 * time.Millisecond)
		_, err := p.old.Settle(t.Context(), "a", string(p.old.AppendGrantID(nil, v.Grant, "a")), 0)
		testrig.Must(t, err)
		time.Sleep(time.Millisecond)
		take(p.old.Decide, 6)
		if got := p.replay(); got.Requests != 3 || got.Denied != (Denials{}) {
			t.Errorf("%+v", got)
		}
	})
}

// A pattern that depends on a part of a segment is said, and not guessed. Known keys settle it.
func TestReplaySaysWhatIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, `rules: [{glob: "*", rate: 1000/s}]`, `rules: [{name: four, glob: "user:4*", rate: 0/s}, {name: none, regex: "^user:[a-z]{3}$", rate: 0/s}]`)
		for _, key := range []string{"user:42", "user:42", "user:7", "user:bob", "user:x-1", "other:1"} {
			p.decide(decider.Request{Key: key, N: 1})
		}
		got := p.replay()
		want := []Pattern{{"four", `glob "user:4*"`, 4}, {"none", `regex "^user:[a-z]{3}$"`, 1}}
		if got.Requests != 1 || got.Unknown.Requests != 5 || got.Unknown.Keys != 4 || fmt.Sprint(got.Unknown.Patterns) != fmt.Sprint(want) || got.More != 0 || got.Share() != 5./6 {
			t.Errorf("%+v: want %v", got, want)
		}
		var b strings.Builder
		testrig.Must(t, got.Print(&b))
		if !strings.Contains(b.String(), "not known: 5 requests of 4 keys (83.33 %)") {
			t.Error(&b)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, `rules: [{glob: "*", rate: 1000/s}]`, `rules: [{name: four, glob: "user:4*", rate: 0/s}]`)
		for _, key := range []string{"user:42", "user:42", "user:7", "user:bob"} {
			p.decide(decider.Request{Key: key, N: 1})
		}
		got := p.replay("user:42", "user:7")
		if got.Requests != 4 || got.More != 2 || got.Top[0] != (KeyChange{Key: "user:42", Requests: 2, Denied: Denials{0, 2}, More: 2}) {
			t.Errorf("%+v", got)
		}
	})
}

// Of a batch, the requests that are known count, unless it is decided as a whole.
func TestReplayUnknownInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, `rules: [{glob: "*", rate: 1000/s}]`, `rules: [{name: four, glob: "user:4*", rate: 0/s}, {name: job, key: "job:a", rate: 0/s}]`)
		keys := []string{"user:42", "job:a", "job:b"}
		p.batch(keys, false, false)
		p.batch(keys, true, false)
		p.batch(keys[1:], true, false)
		got := p.replay()
		if got.Requests != 3 || got.Denied.Now != 2 || got.Unknown.Requests != 2 || got.More != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// Fingerprints need the salt that they were made with.
func TestReplayNeedsTheSalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, `rules: []`, `rules: []`)
		p.decide(decider.Request{Key: "a", N: 1})
		path, other := p.file(), decisionlog.NewSalt()
		for want, salt := range map[string]*decisionlog.Salt{"--salt-file": nil, "is not the one": &other} {
			if _, err := Replay(t.Context(), p.rules, server.Config{}, Recording{Files: []string{path}, Salt: salt}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: want %s", err, want)
			}
		}
		if _, err := Replay(t.Context(), p.rules, server.Config{}, Recording{Files: []string{t.TempDir()}}); err == nil {
			t.Error("a directory without files is read")
		}
	})
}

// A process that is killed, or a full disk, can leave a file without its first block. The others are read.
func TestReplayAFileThatHasJustBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, `rules: []`, `rules: []`)
		p.decide(decider.Request{Key: "a", N: 1})
		path := p.file()
		whole, err := os.ReadFile(path)
		testrig.Must(t, err)
		for _, n := range []int{0, 3, 24, 40} {
			testrig.Must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "begun"+decisionlog.Ext), whole[:n], 0o600))
			got, err := Replay(t.Context(), p.rules, server.Config{}, Recording{Files: []string{filepath.Dir(path)}, Salt: &p.salt})
			if err != nil || got.Requests != 1 || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "cut off") {
				t.Errorf("%d bytes: %+v, %v", n, got, err)
			}
		}
	})
}

// Counters count since the epoch. A file that ends before its first ones does not hide what an earlier one tells.
func TestReplayCountersOfEarlierFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, rules, salt, epoch := t.TempDir(), load(t, `rules: []`), decisionlog.NewSalt(), time.Now()
		info := decisionlog.Info{Separators: againstSeparators, SaltID: salt.ID()}
		for name, c := range map[string]decisionlog.Counters{"a": {Lost: 3, Failed: 1}, "b": {Lost: 5, Failed: 1, Leases: 2}, "c": {}} {
			var b bytes.Buffer
			testrig.Must(t, decisionlog.NewWriter(&b, epoch, info, salt).Count(c))
			testrig.Must(t, os.WriteFile(filepath.Join(dir, name+decisionlog.Ext), b.Bytes(), 0o600))
		}
		got, err := Replay(t.Context(), rules, server.Config{}, Recording{Files: []string{dir}, Salt: &salt})
		if err != nil || len(got.Warnings) != 3 || !strings.HasPrefix(got.Warnings[0], "5 decisions were lost") || !strings.HasPrefix(got.Warnings[1], "1 requests ended") || !strings.HasPrefix(got.Warnings[2], "2 requests for leases") {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A file counts once, by whatever name.
func TestReplayAFileTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, `rules: []`, `rules: []`)
		p.decide(decider.Request{Key: "a", N: 1})
		path := p.file()
		link := filepath.Join(t.TempDir(), "link")
		testrig.Must(t, os.Symlink(filepath.Dir(path), link))
		for _, files := range [][]string{{path, path}, {filepath.Dir(path), path}, {path, link}} {
			if got, err := Replay(t.Context(), p.rules, server.Config{}, Recording{Files: files, Salt: &p.salt}); err == nil || !strings.Contains(err.Error(), "is given twice") {
				t.Errorf("%q: %+v, %v", files, got, err)
			}
		}
	})
}

// The result has the denials by rule and by key, in text and as JSON.
func TestAgainstPrint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, `rules: [{name: old, glob: "*", rate: 2/s, queue: 0}]`, `rules: [{name: new, glob: "login:*", rate: 1/h, queue: 0}]`)
		for range 3 {
			p.decide(decider.Request{Key: "login:jane", N: 1})
			p.decide(decider.Request{Key: "user:x", N: 1})
			time.Sleep(time.Millisecond)
		}
		got := p.replay("login:jane")
		var b strings.Builder
		testrig.Must(t, got.Print(&b))
		text := b.String()
		for _, want := range []string{
			"6 requests of 2 keys, from", "would be denied  2  33.33 %", "more  1  16.67 %", "less  1  16.67 %",
			"new   0            2", "old   2            0", "login:jane           3         1            2                1     0",
			"the recording is shorter than the period of 1 rules",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s\nwant %s", text, want)
			}
		}
		data, err := json.Marshal(got)
		testrig.Must(t, err)
		if !strings.Contains(string(data), `"denied":{"then":2,"now":2},"more":1,"less":1,"unknown":{"requests":0,"keys":0}`) {
			t.Errorf("%s", data)
		}
	})
}
