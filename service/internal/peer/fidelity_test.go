package peer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// manyRules returns rules with all kinds of limits.
func manyRules() *config.Rules {
	debt, queue, none := 3, 4, 0
	return &config.Rules{Apply: config.All, Unmatched: "deny", Hash: "0123456789ab", Rules: []config.Rule{
		{Name: "bucket", Glob: "*a*", Quota: config.Quota{Rate: config.Rate{Count: 7, Period: time.Second}, Burst: 9}, MaxDebt: &debt, Queue: &queue, MaxWait: 3 * time.Second},
		{Name: "fixed", Glob: "*b*", Quota: quota(5, 1500*time.Millisecond, config.Fixed), OwnQuota: true, MaxWait: time.Hour},
		{Name: "sliding", Glob: "*c*", Quota: quota(6, time.Second, config.Sliding), Queue: &none, MaxWait: time.Hour},
		{Name: "shadow", Glob: "*d*", Quota: quota(2, time.Second, config.GCRA), Mode: config.Shadow, MaxWait: time.Hour, Memory: 1 << 20},
		{Name: "shared", Glob: "*e*", Per: config.PerRule, Quota: quota(8, time.Second, config.GCRA), MaxWait: time.Hour},
		{Name: "units", Glob: "*f*", Concurrency: &config.Concurrency{Limit: 3, TTL: 2 * time.Second, MaxWait: time.Minute, Queue: &queue}},
		{Name: "dated", Glob: "*c*", Quota: config.Quota{Rate: config.Rate{Count: 90, Period: time.Minute}, Algorithm: config.Calendar, Zone: "Asia/Tokyo"}, MaxWait: time.Hour},
		{Name: "nothing", Glob: "*g*", Quota: quota(0, time.Second, config.GCRA), Candidate: &config.Quota{Rate: config.Rate{Count: 1, Period: 90 * time.Second}}},
	}}
}

// A pair is two servers in the same state: one in this process, and one behind a link.
type pair struct {
	t     *testing.T
	r     *rand.Rand
	local decider.Decider
	far   decider.Decider
	wg    sync.WaitGroup
}

func newPair(t *testing.T, seed uint64, rules func() *config.Rules) *pair {
	cfg := server.Config{Rules: rules(), MaxLimit: 100, MaxQueue: 100, OwnQuotas: true}
	local, behind := newServer(t, cfg), newServer(t, cfg)
	s := newSite(t, serve.Config{Decider: behind, Now: behind.Now, Secret: secret, Rules: behind.Rules})
	far := s.dial(peer.Config{Secret: secret, Now: local.Now, Rules: local.Rules})
	return &pair{t: t, r: rand.New(rand.NewPCG(seed, 1)), local: local, far: far}
}

// both calls f for both Deciders at the same time, and compares what they return.
func (p *pair) both(what string, f func(d decider.Decider) (any, error)) {
	p.t.Helper()
	var results [2]any
	var errs [2]error
	var wg sync.WaitGroup
	for i, d := range []decider.Decider{p.local, p.far} {
		wg.Go(func() { results[i], errs[i] = f(d) })
		synctest.Wait()
	}
	compare := func() {
		wg.Wait()
		if !reflect.DeepEqual(results[0], results[1]) || !reflect.DeepEqual(errs[0], errs[1]) {
			p.t.Errorf("%s:\nlocal %+v %v\npeer  %+v %v", what, results[0], errs[0], results[1], errs[1])
		}
	}
	p.wg.Go(compare)
}

// plain returns a verdict without what differs between two servers: their secrets.
func plain(vs ...decider.Verdict) (all []decider.Verdict) {
	for _, v := range vs {
		if v.Grant.ID != "" {
			v.Grant.ID = "" // that of the local server comes later
		}
		v.Grant.Rules = 0
		v.Answers = append([]decider.Answer{}, v.Answers...)
		all = append(all, v)
	}
	return all
}

// duration returns a random duration below most, in nanoseconds: no two things happen at the same
// instant, after which the servers could differ.
func (p *pair) duration(most time.Duration) time.Duration {
	return 1 + time.Duration(p.r.Int64N(int64(most)))
}

func (p *pair) key() string {
	n := 1 + p.r.IntN(3)
	var b strings.Builder
	for range n {
		b.WriteByte("abcdefgx"[p.r.IntN(8)])
	}
	return b.String()
}

func (p *pair) request() decider.Request {
	r := decider.Request{Key: p.key(), N: p.r.IntN(4), WantID: p.r.IntN(2) == 0}
	switch p.r.IntN(8) {
	case 0:
		r.Limit = 1 + p.r.IntN(5)
	case 1:
		r.OwnQueue, r.Queue = true, p.r.IntN(3)
	case 2:
		r.Quota = &decider.Quota{Count: p.r.IntN(3), Period: time.Second, Burst: p.r.IntN(6)}
	}
	return r
}

// step makes a random request to both.
func (p *pair) step() {
	switch p.r.IntN(12) {
	case 0, 1, 2:
		req := p.request()
		p.both(fmt.Sprintf("decide %+v", req), func(d decider.Decider) (any, error) {
			r, v := req, decider.Verdict{}
			err := d.Decide(p.t.Context(), &r, &v)
			if err != nil {
				return nil, err
			}
			return plain(v), nil
		})
	case 3, 4:
		p.wait()
	case 5, 6:
		p.batch()
	case 7:
		p.settle()
	case 8, 9:
		p.lease()
	case 10:
		p.exchange()
	default:
		key := p.key()
		p.both("explain "+key, func(d decider.Decider) (any, error) { return d.Explain(p.t.Context(), key) })
		p.both("top", func(d decider.Decider) (any, error) { return d.Top(p.t.Context(), 5) })
	}
}

// context returns a context that may end.
func (p *pair) context() (func() context.Context, string) {
	d := p.duration(3 * time.Second)
	switch p.r.IntN(3) {
	case 0:
		return func() context.Context {
			ctx, cancel := context.WithTimeout(p.t.Context(), d)
			context.AfterFunc(ctx, cancel)
			return ctx
		}, fmt.Sprint("for ", d)
	case 1:
		return func() context.Context {
			ctx, cancel := context.WithCancel(p.t.Context())
			time.AfterFunc(d, cancel)
			return ctx
		}, fmt.Sprint("cancelled after ", d)
	}
	return p.t.Context, ""
}

func (p *pair) wait() {
	req := p.request()
	ctx, text := p.context()
	p.both(fmt.Sprintf("wait %s %+v", text, req), func(d decider.Decider) (any, error) {
		r, v, waits := req, decider.Verdict{}, 0
		r.OnWait = func() { waits++ }
		err := d.Wait(ctx(), &r, &v)
		if err != nil {
			return []any{waits, v.Waited}, err
		}
		return []any{waits, plain(v)}, nil
	})
}

func (p *pair) batch() {
	reqs := make([]decider.Request, p.r.IntN(6))
	if p.r.IntN(10) == 0 {
		reqs = make([]decider.Request, 150)
	}
	for i := range reqs {
		reqs[i] = p.request()
	}
	all, kind := p.r.IntN(2) == 0, p.r.IntN(2)
	p.both(fmt.Sprintf("batch %v %v %+v", all, kind, reqs), func(d decider.Decider) (any, error) {
		rs, vs := append([]decider.Request{}, reqs...), make([]decider.Verdict, len(reqs))
		do := d.Batch
		if kind == 0 {
			do = d.Descriptors
		}
		ok, err := do(p.t.Context(), rs, all, vs)
		if err != nil {
			return nil, err
		}
		return []any{ok, plain(vs...)}, nil
	})
}

// settle settles what a request took, and once more.
func (p *pair) settle() {
	req, n, pause := decider.Request{Key: p.key(), N: 1 + p.r.IntN(3), WantID: true}, p.r.IntN(8), p.duration(time.Second)
	p.both(fmt.Sprintf("settle %+v %d", req, n), func(d decider.Decider) (any, error) {
		r, v := req, decider.Verdict{}
		if err := d.Decide(p.t.Context(), &r, &v); err != nil || !v.OK {
			return nil, err
		}
		id := string(d.AppendGrantID(nil, v.Grant, req.Key))
		time.Sleep(pause)
		first, err := d.Settle(p.t.Context(), req.Key, id, n)
		_, again := d.Settle(p.t.Context(), req.Key, id, n)
		if !errors.Is(again, decider.ErrNoGrant) {
			return nil, fmt.Errorf("settled twice: %v", again)
		}
		return []any{first, len(id)}, err
	})
}

// lease takes a lease, renews and returns it.
func (p *pair) lease() {
	req := decider.LeaseRequest{Key: p.key(), N: 1 + p.r.IntN(4), TTL: time.Duration(p.r.IntN(3)) * time.Second, Wait: p.r.IntN(2) == 0}
	pause, renews := p.duration(2500*time.Millisecond), p.r.IntN(2) == 0
	ctx, text := p.context()
	p.both(fmt.Sprintf("lease %s %+v", text, req), func(d decider.Decider) (any, error) {
		r, waits := req, 0
		r.OnWait = func() { waits++ }
		l, err := d.Acquire(ctx(), r)
		if err != nil {
			return []any{waits, l}, err
		}
		time.Sleep(pause)
		id := l.ID
		l.ID, l.Token = fmt.Sprint(len(l.ID)), 0
		all := []any{waits, l}
		if renews {
			again, err := d.Renew(p.t.Context(), req.Key, id, time.Second)
			if err == nil && again.ID != id {
				return nil, fmt.Errorf("renewed as %q: want %q", again.ID, id)
			}
			again.ID, again.Token = "", 0
			all = append(all, again, err)
		}
		return append(all, d.Return(p.t.Context(), req.Key, id, weir.Success)), nil
	})
}

func (p *pair) exchange() {
	x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: fmt.Sprint("leaf", p.r.IntN(3)), Held: p.r.IntN(4), Leave: p.r.IntN(10) == 0, Share: p.r.IntN(2) == 0}, Single: p.r.IntN(3) == 0, Unsure: p.r.IntN(3) == 0, Repeat: p.r.IntN(3) == 0, Tenant: []string{"", "t"}[p.r.IntN(2)]}
	if p.r.IntN(2) == 0 {
		x.Keep = 0.1
	}
	for range p.r.IntN(5) {
		x.Reports = append(x.Reports, leaf.Report{
			Key: p.key(), Used: p.r.IntN(5), Wants: p.r.Float64() * 20, Has: float64(p.r.IntN(3)), Done: p.r.IntN(8) == 0,
		})
	}
	p.both(fmt.Sprintf("exchange %+v", x), func(d decider.Decider) (any, error) {
		in, got := x, decider.LeafAnswer{}
		err := d.Exchange(p.t.Context(), &in, &got)
		got.Watch = append([]string{}, got.Watch...)
		got.Assignments = append([]leaf.Assignment{}, got.Assignments...)
		return got, err
	})
}

// Random requests get the same answers from a server and through the link.
func TestFidelity(t *testing.T) { fidelity(t, 6) }

func fidelity(t *testing.T, seeds uint64) {
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, seed, manyRules)
				for range 300 {
					p.step()
					if t.Failed() {
						break
					}
					time.Sleep(p.duration(40 * time.Millisecond))
				}
				p.wg.Wait()
			})
		})
	}
}

// The quotas of descriptors that a Decider drops are dropped on this side, too.
func TestDropsQuotas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t, 1, func() *config.Rules { return &config.Rules{Descriptors: new(descriptor.Tree)} })
		p.both("descriptors", func(d decider.Decider) (any, error) {
			reqs := []decider.Request{{Key: "d|a=b", N: 1, Quota: &decider.Quota{Count: 1, Period: time.Second, Unit: time.Second}}}
			verdicts := make([]decider.Verdict, 1)
			ok, err := d.Descriptors(t.Context(), reqs, false, verdicts)
			return []any{ok, plain(verdicts...), reqs[0].Quota == nil}, err
		})
		p.wg.Wait()
	})
}
