package rulecheck

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/heap"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/decisionlog"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Recording is files of decisions, with what is known about them.
type Recording struct {
	Files []string          // files, or directories of files
	Salt  *decisionlog.Salt // nil if it is in the files
	Keys  []string          // keys that may be in them
}

// An Against tells what rules would have done with recorded requests, and what was done. A request is one for
// tokens, or all descriptors of a request of Envoy, or a batch that is allowed as a whole or not at all.
type Against struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Requests int       `json:"requests"` // without the unknown ones
	Denied   Denials   `json:"denied"`
	// More are requests that were allowed and would have been denied. Less are the reverse.
	More     int          `json:"more"`
	Less     int          `json:"less"`
	Unknown  Unknown      `json:"unknown"`
	Rules    []RuleChange `json:"rules"`
	Top      []KeyChange  `json:"top"`
	Keys     int          `json:"keys"` // distinct ones
	Warnings []string     `json:"warnings,omitempty"`
}

// Denials count the requests that were denied then, and the requests that the rules would have denied.
type Denials struct {
	Then int `json:"then"`
	Now  int `json:"now"`
}

// Unknown are the requests that the recording has too little of.
type Unknown struct {
	Requests int       `json:"requests"`
	Keys     int       `json:"keys"`
	Patterns []Pattern `json:"patterns,omitempty"` // that need more than segments, the most frequent first
}

// A Pattern is a pattern that may match keys, or not.
type Pattern struct {
	Rule     string `json:"rule"`
	Pattern  string `json:"pattern"`
	Requests int    `json:"requests"`
}

// A RuleChange has the denials by a rule, old or new.
type RuleChange struct {
	Rule   string  `json:"rule"`
	Denied Denials `json:"denied"`
}

// A KeyChange has the requests for a key.
type KeyChange struct {
	Key      string  `json:"key"` // ~ and eight digits stand for a segment that is not known
	Requests int     `json:"requests"`
	Denied   Denials `json:"denied"`
	More     int     `json:"more"`
	Less     int     `json:"less"`
}

// Share returns the share of requests that were allowed and would have been denied. A request of which that is not known counts as such.
func (a *Against) Share() float64 {
	if all := a.Requests + a.Unknown.Requests; all > 0 {
		return float64(a.More+a.Unknown.Requests) / float64(all)
	}
	return 0
}

// maxTop bounds Against.Top.
const maxTop = 20

// Replay decides recorded requests by rules, on the code of weir serve with a clock of its own.
func Replay(ctx context.Context, file *config.Rules, cfg server.Config, from Recording) (*Against, error) {
	in := &reader{set: file, given: from.Salt, known: from.Keys}
	if err := readAll(from.Files, in); err != nil {
		return nil, err
	}
	p := &player{recorded: &in.recorded, rules: map[string]*RuleChange{}, keys: make([]KeyChange, len(in.keys))}
	p.waiters = heap.New(func(a, b *waiter) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq })
	if len(in.items) > 0 {
		first, last := time.Unix(0, in.items[0].at), time.Unix(0, in.items[len(in.items)-1].at)
		p.result.From, p.result.To, p.epoch = first, last, in.items[0].at
	}
	cfg.Rules, cfg.Clock = file, clock.ManualAt(time.Unix(0, p.epoch), &p.now)
	cfg.MaxLimit, cfg.MaxQueue, cfg.OwnQuotas = in.info.MaxLimit, in.info.MaxQueue, in.info.OwnQuotas
	var err error
	if p.server, err = server.New(cfg); err != nil {
		return nil, err
	}
	if err := p.play(ctx); err != nil {
		return nil, err
	}
	p.finish(file)
	return &p.result, nil
}

// A player replays a recording.
type player struct {
	*recorded
	server  *server.Server
	epoch   int64
	now     time.Duration // since the epoch
	waiters *heap.Heap[*waiter]
	seq     int
	waiting map[int32]int // by key
	waited  int
	grants  map[int32][]grant // that may be settled, by key

	rules    map[string]*RuleChange
	keys     []KeyChange
	doubts   map[int32]int // requests by pattern
	keyless  int
	untermed int
	result   Against

	rest     []item // of a batch
	reqs     []decider.Request
	quotas   []decider.Quota
	verdicts []decider.Verdict
}

// A waiter is a request that waits for tokens.
type waiter struct {
	item *item
	at   time.Duration // when it asks again
	end  time.Duration // when it gives up
	seq  int
}

// play decides all requests.
func (p *player) play(ctx context.Context) error {
	p.waiting, p.grants, p.doubts = map[int32]int{}, map[int32][]grant{}, map[int32]int{}
	for i, n := 0, 0; i < len(p.items); i += n {
		if i%1024 < n {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		first := &p.items[i]
		n = 1
		for first.group > 0 && first.flags&decisionlog.Settled == 0 && i+n < len(p.items) && p.items[i+n].group == first.group && p.items[i+n].at == first.at {
			n++
		}
		at := time.Duration(first.at - p.epoch)
		p.wake(at)
		p.now = at
		p.decide(p.items[i : i+n])
	}
	p.wake(1 << 62)
	return nil
}

// decide decides the requests of a batch, or one.
func (p *player) decide(all []item) {
	first := &all[0]
	if first.flags&decisionlog.Settled != 0 {
		p.settle(first)
		return
	}
	whole := first.flags&(decisionlog.Together|decisionlog.Descriptors) != 0
	if all = p.known(all, whole); len(all) == 0 {
		return
	}
	p.reqs, p.quotas, p.verdicts = p.reqs[:0], slices.Grow(p.quotas[:0], len(all)), slices.Grow(p.verdicts, len(all))[:max(len(p.verdicts), len(all))]
	for i := range all {
		p.reqs = append(p.reqs, p.request(&all[i]))
	}
	ctx := context.Background()
	var err error
	switch together := first.flags&decisionlog.Together != 0; {
	case first.flags&decisionlog.Descriptors != 0:
		_, err = p.server.Descriptors(ctx, p.reqs, together, p.verdicts)
	case len(all) > 1 || together:
		_, err = p.server.Batch(ctx, p.reqs, together, p.verdicts)
	default:
		err = p.server.Decide(ctx, &p.reqs[0], &p.verdicts[0])
		if err == nil && first.flags&decisionlog.Waits != 0 {
			end := p.now + first.maxWait
			if first.maxWait == decisionlog.LongestWait {
				end = math.MaxInt64
			}
			if p.mayWait(first, &p.reqs[0], &p.verdicts[0], end) {
				return
			}
		}
	}
	if err != nil {
		for i := range all {
			p.verdicts[i] = failed(err)
		}
	}
	if !whole {
		for i := range all {
			p.count(all[i:i+1], p.verdicts[i:i+1])
		}
		return
	}
	p.count(all, p.verdicts[:len(all)])
}

// failed returns the denial of a request that could not be decided.
func failed(err error) decider.Verdict {
	return decider.Verdict{Rule: &decider.RuleRef{Name: "error: " + err.Error()}}
}

// maxGrants bounds the grants of a key that may be settled.
const maxGrants = 256

// A grant is a grant of the replay.
type grant struct {
	at    int64 // of the decision, in nanoseconds since 1970; of a request that waits, its arrival
	waits bool
	decider.Grant
}

// settle settles the grant that was settled, if the rules give it. If the recording does not tell its age, it is the last one with
// the cost that was taken. For a request that would wait, it is the last one that came before.
func (p *player) settle(e *item) {
	if e.key < 0 {
		return
	}
	const millisecond, slack = 1e6, 2048 // nanoseconds: the instants of grants are rounded down, and ages are rounded
	all := p.grants[e.key]
	for i := len(all) - 1; i >= 0; i-- {
		at := e.at - int64(e.maxWait)
		if g := &all[i]; g.N == int(e.group) && (e.maxWait == decisionlog.MaxAge || (g.waits || at-slack < g.at) && g.at < at+millisecond+slack) {
			key := p.recorded.keys[e.key].text
			id := p.server.AppendGrantID(nil, g.Grant, key)
			_, _ = p.server.Settle(context.Background(), key, string(id), int(e.n)) // without a rule, it is no grant
			p.grants[e.key] = slices.Delete(all, i, i+1)
			return
		}
	}
}

// known returns the requests of which the recording has enough, and counts the others. Requests that are decided as a whole are known
// if all are.
func (p *player) known(all []item, whole bool) []item {
	p.rest = p.rest[:0]
	for i := range all {
		e := &all[i]
		switch {
		case e.key < 0:
			p.keyless++
		case e.terms == -2:
			p.untermed++
		case p.recorded.keys[e.key].doubt >= 0:
			p.doubts[p.recorded.keys[e.key].doubt]++
		default:
			p.rest = append(p.rest, *e)
			continue
		}
		if p.result.Unknown.Requests++; whole {
			return nil
		}
	}
	return p.rest
}

// request returns a request as it was.
func (p *player) request(e *item) decider.Request {
	req := decider.Request{Key: p.recorded.keys[e.key].text, N: int(e.n), WantID: e.flags&decisionlog.WantID != 0}
	if e.terms >= 0 {
		t := p.terms[e.terms]
		if req.Limit = t.Limit; t.Queue != nil {
			req.Queue, req.OwnQueue = *t.Queue, true
		}
		if t.Quota != (decider.Quota{}) {
			p.quotas = append(p.quotas, t.Quota)
			req.Quota = &p.quotas[len(p.quotas)-1]
		}
	}
	return req
}

// mayWait has a request that was denied ask again when there will be tokens. It returns false if the request may not wait so long.
func (p *player) mayWait(e *item, req *decider.Request, v *decider.Verdict, end time.Duration) bool {
	if v.OK || v.Reason != weir.OverRate || e.n == 0 || v.RetryAfter >= 1<<61 {
		return false
	}
	rule := p.server.Match(req.Key).Denying(v)
	if rule == nil {
		return false
	}
	if rule.MaxWait > 0 {
		end = min(end, time.Duration(e.at-p.epoch)+rule.MaxWait)
	}
	if p.now+v.RetryAfter > end || p.waiting[e.key] >= (counts.Bounds{MaxQueue: p.info.MaxQueue}).Queue(req, rule) {
		return false
	}
	p.seq++
	p.waiting[e.key]++
	kept := *e
	p.waiters.Push(&waiter{item: &kept, at: p.now + max(v.RetryAfter, 1), end: end, seq: p.seq})
	return true
}

// wake has the requests that wait ask again, up to an instant.
func (p *player) wake(until time.Duration) {
	var v decider.Verdict
	for p.waiters.Len() > 0 && p.waiters.Min().at <= until {
		w := p.waiters.Pop()
		p.waiting[w.item.key]--
		p.now = w.at
		req := p.request(w.item)
		err := p.server.Decide(context.Background(), &req, &v)
		if err != nil {
			v = failed(err)
		} else if p.mayWait(w.item, &req, &v, w.end) {
			continue
		}
		p.waited++
		p.count([]item{*w.item}, []decider.Verdict{v})
	}
}

// count counts a request.
func (p *player) count(all []item, verdicts []decider.Verdict) {
	then, now := -1, -1 // what denied
	for i := range all {
		if all[i].denied && then < 0 {
			then = i
		}
		v := &verdicts[i]
		if !v.OK && (now < 0 || verdicts[now].Reason == 0 && v.Reason != 0) {
			now = i
		}
		if v.OK && p.settles[all[i].key] {
			grants := p.grants[all[i].key]
			p.grants[all[i].key] = append(grants[max(len(grants)-maxGrants+1, 0):], grant{all[i].at, all[i].flags&decisionlog.Waits != 0, v.Grant})
		}
	}
	p.result.Requests++
	about := max(then, 0) // the request of a batch that its denial is about
	if now >= 0 {
		about = now
	}
	key := &p.keys[all[about].key]
	key.Requests++
	if then >= 0 {
		p.result.Denied.Then++
		p.rule(p.recorded.rules[all[then].rule]).Denied.Then++
		key.Denied.Then++
	}
	if now >= 0 {
		p.result.Denied.Now++
		name := ""
		if v := &verdicts[now]; v.Denied() != nil {
			name = v.Denied().Rule.Name
		} else if v.Rule != nil {
			name = v.Rule.Name
		}
		p.rule(name).Denied.Now++
		key.Denied.Now++
	}
	switch {
	case now >= 0 && then < 0:
		p.result.More++
		key.More++
	case now < 0 && then >= 0:
		p.result.Less++
		key.Less++
	}
}

func (p *player) rule(name string) *RuleChange {
	name = cmp.Or(name, "(no rule)")
	r := p.rules[name]
	if r == nil {
		r = &RuleChange{Rule: name}
		p.rules[name] = r
	}
	return r
}

// finish completes the result.
func (p *player) finish(file *config.Rules) {
	r := &p.result
	r.Keys = len(p.keys)
	r.Rules = []RuleChange{}
	for _, rule := range p.rules {
		r.Rules = append(r.Rules, *rule)
	}
	slices.SortFunc(r.Rules, func(a, b RuleChange) int {
		return cmp.Or(cmp.Compare(b.Denied.Now, a.Denied.Now), cmp.Compare(b.Denied.Then, a.Denied.Then), strings.Compare(a.Rule, b.Rule))
	})
	for i := range p.keys {
		p.keys[i].Key = p.recorded.keys[i].label
		if p.recorded.keys[i].doubt >= 0 {
			r.Unknown.Keys++
		}
	}
	slices.SortFunc(p.keys, func(a, b KeyChange) int {
		return cmp.Or(cmp.Compare(b.More, a.More), cmp.Compare(b.Denied.Now, a.Denied.Now), cmp.Compare(b.Denied.Then, a.Denied.Then), strings.Compare(a.Key, b.Key))
	})
	neverDenied := func(k KeyChange) bool { return k.Denied == (Denials{}) }
	if end := slices.IndexFunc(p.keys, neverDenied); end >= 0 {
		p.keys = p.keys[:end]
	}
	r.Top = append([]KeyChange{}, p.keys[:min(len(p.keys), maxTop)]...)
	for pattern, n := range p.doubts {
		r.Unknown.Patterns = append(r.Unknown.Patterns, patternOf(file, int(pattern), n))
	}
	slices.SortFunc(r.Unknown.Patterns, func(a, b Pattern) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Rule, b.Rule))
	})
	r.Warnings = p.warnings()
}
