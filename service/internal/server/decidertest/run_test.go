package decidertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A story is rules, and calls with what each returns, one a line:
//
//	CALL -> WANT
//	CALL -> WANT | NAME NAME: WANT | ...
//
// A WANT after names is of implementations that have a trait with one of these names; the first one counts.
// A WANT is an outcome and some of its fields: see outcome. Fields that it does not list are not checked, and
// < or > in place of = bounds a field. "any" is every outcome.
//
//	take KEY N [FIELD ...]          Decide: id=G keeps the id of the grant; limit=L; own=COUNT/PERIOD[/BURST]
//	batch [descriptors] [all] KEY N [FIELD ...], KEY N ...   Batch, or Descriptors; the outcome has one part for each request, after ";"
//	wait W KEY N [FIELD ...]        Wait in the background; within=D bounds it; queue=Q
//	lease L KEY N [FIELD ...]       Acquire; ttl=D; with wait, in the background, as W; within=D bounds it
//	end W                           what became of a call in the background
//	cancel W                        its caller leaves
//	settle KEY G N                  Settle
//	renew KEY L [TTL]               Renew
//	return KEY L                    Return
//	explain KEY                     Explain; the outcome has one part for each rule, after ";"
//	top                             Top
//	reset KEY                       Reset
//	rules N                         the rules change to those after the Nth line of three hyphens
//	sleep D                         time passes
//	cut, heal                       what is behind cannot be reached, or can again
//	load KEY RATE D                 Decide for one token, RATE times a second for D
//	close [now]                     Close
type story struct {
	name  string
	each  string // words: the story is told once for each, with it in place of EACH in rules and calls
	rules string
	calls string
}

// Traits say how an implementation differs from a node that counts alone in its memory, where users can see that: see
// docs/serve-guarantees.md, docs/redis.md and docs/scale.md. A story names them in lower case.
type traits struct {
	Nodes bool // several nodes of a store are asked, each with its own statistics
	Store bool // counts in a store, whose queues are bounded by time
	Fleet bool // members share keys
	Link  bool // another node answers, over a link
	Share bool // decides by a share of one node, and says so
	Alone bool // has nothing behind it
	Wire  bool // a protocol of callers, which has fewer calls: a story ends at one that it does not have, unless that takes nothing
	Leaf  bool // is a leaf: its upstream answers, and has the limits
}

func (tr traits) has(name string) bool {
	v := reflect.ValueOf(tr)
	for i := range v.NumField() {
		if strings.EqualFold(v.Type().Field(i).Name, name) {
			return v.Field(i).Bool()
		}
	}
	panic("no trait " + name)
}

// A rig makes nodes of an implementation, in the bubble of a story.
type rig struct {
	name   string
	of     []string // types that declare to be a Decider: package.Type
	traits traits
	make   func(t *testing.T, rules *config.Rules) (*node, error)

	told, untold int // calls
}

// A node is a Decider, and what else a story needs of it. Functions that it does not have are nil.
type node struct {
	decider.Decider
	reload func(*config.Rules) error
	reset  func(ctx context.Context, key string) ([]decider.Reset, error)
	cut    func(cut bool)
	close  func(now bool)
}

// told returns the stories that are told for one.
func (s *story) told() (all []*story) {
	for _, word := range strings.Fields(cmp.Or(s.each, "once")) {
		one := *s
		if s.each != "" {
			one.name += " (" + word + ")"
		}
		one.rules, one.calls = strings.ReplaceAll(s.rules, "EACH", word), strings.ReplaceAll(s.calls, "EACH", word)
		all = append(all, &one)
	}
	return all
}

// run tells a story to an implementation.
func run(t *testing.T, r *rig, s *story) {
	synctest.Test(t, func(t *testing.T) {
		texts := strings.Split(s.rules, "\n---\n")
		d := desk{t: t, ids: map[string]string{}, calls: map[string]*call{}}
		for _, text := range texts {
			rules, err := config.Parse("rules.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			d.rules = append(d.rules, rules)
		}
		var err error
		if d.node, err = r.make(t, d.rules[0]); err != nil {
			d.refused = err
		}
		ended := false
		for line := range strings.SplitSeq(strings.TrimSpace(s.calls), "\n") {
			line = strings.TrimSpace(line)
			what, wants, checked := strings.Cut(line, " -> ")
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if ended {
				r.untold++
				continue
			}
			r.told++
			got := d.do(strings.TrimSpace(what))
			if r.traits.Wire && got == "not_asked" {
				ended = !looks.MatchString(what)
				continue
			}
			if want := choose(wants, r.traits); checked {
				if wrong := differs(got, want); wrong != "" {
					t.Errorf("%s\n\tgot  %s\n\twant %s (%s)", strings.TrimSpace(what), got, want, wrong)
				}
			} else if got != "" {
				t.Errorf("%s: %s", what, got)
			}
			if d.refused != nil {
				break
			}
		}
		for _, c := range d.calls {
			c.leave()
		}
		synctest.Wait()
	})
}

// looks matches the calls that take nothing.
var looks = regexp.MustCompile(`^(explain|top)\b`)

// choose returns the want that counts for an implementation.
func choose(wants string, tr traits) string {
	all := strings.Split(wants, " | ")
	for _, w := range all[1:] {
		names, want, ok := strings.Cut(w, ": ")
		if !ok {
			panic("a want without a trait: " + w)
		}
		if slices.ContainsFunc(strings.Fields(names), tr.has) {
			return strings.TrimSpace(want)
		}
	}
	return strings.TrimSpace(all[0])
}

// differs returns what an outcome lacks of a want; empty if nothing.
func differs(got, want string) string {
	if want == "any" {
		return ""
	}
	gots, wants := strings.Split(got, ";"), strings.Split(want, ";")
	if len(gots) != len(wants) {
		return fmt.Sprintf("%d parts", len(wants))
	}
	for i := range gots {
		has := map[string]string{}
		words := strings.Fields(gots[i])
		for j, w := range words {
			if k, v, ok := strings.Cut(w, "="); ok && j > 0 {
				has[k] = v
			}
		}
		for j, w := range strings.Fields(wants[i]) {
			at := strings.IndexAny(w, "=<>")
			switch {
			case j == 0 && at < 0:
				if len(words) == 0 || words[0] != w {
					return w
				}
			case j == 0: // an outcome without a word
				fallthrough
			default:
				if at < 0 || !holds(has[w[:at]], w[at], w[at+1:]) {
					return w
				}
			}
		}
	}
	return ""
}

// holds reports whether a value is, or is at most or at least, another one.
func holds(got string, op byte, want string) bool {
	if op == '=' {
		return got == want
	}
	a, err := number(got)
	b, err2 := number(want)
	if err := errors.Join(err, err2); err != nil {
		return false
	}
	return op == '<' && a <= b || op == '>' && a >= b
}

func number(text string) (float64, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return float64(d), nil
	}
	return strconv.ParseFloat(text, 64)
}

// A desk calls a node for a story.
type desk struct {
	*node
	t       *testing.T
	rules   []*config.Rules
	refused error // of the first rules
	calls   map[string]*call

	mu  sync.Mutex // guards ids
	ids map[string]string
}

// A call is one in the background.
type call struct {
	leave context.CancelFunc
	done  chan string
	got   string // empty while it waits
}

// outcome returns what has come of a call until now.
func (c *call) outcome() string {
	synctest.Wait()
	select {
	case c.got = <-c.done:
	default:
	}
	if c.got == "" {
		return "waits"
	}
	return c.got
}

// do makes a call, and returns the outcome.
func (d *desk) do(text string) string {
	if d.refused != nil {
		return "refused"
	}
	ctx := d.t.Context()
	verb, rest, _ := strings.Cut(text, " ")
	words, fields := parse(rest)
	arg := func(i int) string {
		if i >= len(words) {
			d.t.Fatalf("%s: too short", text)
		}
		return words[i]
	}
	count := func(i int) int {
		n, err := strconv.Atoi(arg(i))
		if err != nil {
			d.t.Fatalf("%s: %v", text, err)
		}
		return n
	}
	switch verb {
	case "take":
		req, v := request(arg(0), count(1), fields), decider.Verdict{}
		if err := d.Decide(ctx, &req, &v); err != nil {
			return named(err)
		}
		d.keep(fields["id"], &req, &v)
		return verdict(&v)
	case "batch":
		return d.batch(ctx, rest)
	case "wait":
		req := request(arg(1), count(2), fields)
		return d.background(arg(0), fields, func(ctx context.Context) string {
			var v decider.Verdict
			if err := d.Wait(ctx, &req, &v); err != nil {
				return named(err)
			}
			return verdict(&v)
		})
	case "lease":
		req := decider.LeaseRequest{Key: arg(1), N: count(2), TTL: duration(fields["ttl"]), Wait: len(words) > 3}
		return d.background(arg(0), fields, func(ctx context.Context) string {
			l, err := d.Acquire(ctx, req)
			if err != nil {
				return named(err) + " step=" + l.Step.String()
			}
			d.name(words[0], l.ID)
			return d.leased(&l)
		})
	case "end":
		return d.calls[arg(0)].outcome()
	case "cancel":
		d.calls[arg(0)].leave()
		return ""
	case "settle":
		done, err := d.Settle(ctx, arg(0), d.id(arg(1)), count(2))
		if err != nil {
			return named(err)
		}
		return fmt.Sprintf("ok was=%d charged=%d", done.Was, done.Charged)
	case "renew":
		ttl := time.Duration(0)
		if len(words) > 2 {
			ttl = duration(words[2])
		}
		l, err := d.Renew(ctx, arg(0), d.id(arg(1)), ttl)
		if err != nil {
			return named(err)
		}
		if l.ID != d.id(arg(1)) {
			return "another_id"
		}
		return d.leased(&l)
	case "return":
		if err := d.Return(ctx, arg(0), d.id(arg(1)), weir.Success); err != nil {
			return named(err)
		}
		return "ok"
	case "explain":
		x, err := d.Explain(ctx, arg(0))
		if err != nil {
			return named(err)
		}
		return explanation(&x)
	case "top":
		seen, err := d.Top(ctx, 10)
		if err != nil {
			return named(err)
		}
		return tops(seen)
	case "reset":
		if d.reset == nil {
			return "no_reset"
		}
		done, err := d.reset(ctx, arg(0))
		if err != nil {
			return named(err)
		}
		text := "ok"
		for _, r := range done {
			text += fmt.Sprintf(" %s=%d", r.Rule, r.Returned)
		}
		return text
	case "rules":
		if err := d.reload(d.rules[count(0)]); err != nil {
			return "refused"
		}
		synctest.Wait()
		return ""
	case "sleep":
		time.Sleep(duration(arg(0)))
		synctest.Wait()
		return ""
	case "cut", "heal":
		if d.cut == nil {
			return "nothing_behind"
		}
		d.cut(verb == "cut")
		synctest.Wait()
		return "ok"
	case "load":
		return d.load(ctx, arg(0), count(1), duration(arg(2)))
	case "close":
		if d.close == nil {
			return "no_close"
		}
		d.close(len(words) > 0)
		synctest.Wait()
		return "ok"
	}
	d.t.Fatalf("%s: no such call", text)
	return ""
}

// background makes a call in the background, and returns its outcome at this instant.
func (d *desk) background(name string, fields map[string]string, do func(context.Context) string) string {
	ctx, cancel := context.WithCancel(d.t.Context())
	if within := fields["within"]; within != "" {
		ctx, cancel = context.WithTimeout(d.t.Context(), duration(within))
	}
	c := &call{leave: cancel, done: make(chan string, 1)}
	d.calls[name] = c
	go func() { c.done <- do(ctx) }()
	return c.outcome()
}

// batch makes a Batch.
func (d *desk) batch(ctx context.Context, text string) string {
	text, descriptors := strings.CutPrefix(text, "descriptors ")
	text, all := strings.CutPrefix(text, "all ")
	var reqs []decider.Request
	var kept []map[string]string
	for one := range strings.SplitSeq(text, ", ") {
		words, fields := parse(one)
		n, err := strconv.Atoi(words[1])
		if err != nil {
			d.t.Fatal(err)
		}
		reqs, kept = append(reqs, request(words[0], n, fields)), append(kept, fields)
	}
	verdicts := make([]decider.Verdict, len(reqs))
	ask := d.Batch
	if descriptors {
		ask = d.Descriptors
	}
	ok, err := ask(ctx, reqs, all, verdicts)
	if err != nil {
		return named(err)
	}
	got := "no"
	if ok {
		got = "ok"
	}
	for i := range verdicts {
		d.keep(kept[i]["id"], &reqs[i], &verdicts[i])
		got += " ; " + verdict(&verdicts[i])
	}
	return got
}

// load asks for one token at a time, at a rate for a while.
func (d *desk) load(ctx context.Context, key string, perSecond int, span time.Duration) string {
	given, steps := 0, map[string]int{}
	for range int(span.Seconds() * float64(perSecond)) {
		time.Sleep(time.Second / time.Duration(perSecond))
		var v decider.Verdict
		if err := d.Decide(ctx, &decider.Request{Key: key, N: 1}, &v); err != nil {
			return named(err)
		}
		steps[v.Step.String()]++
		if v.OK {
			given++
		}
	}
	text := fmt.Sprintf("ok given=%d", given)
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		text += fmt.Sprintf(" %s=%d", step, steps[step])
	}
	return text
}

// keep keeps the id of a grant under a name.
func (d *desk) keep(name string, req *decider.Request, v *decider.Verdict) {
	if name != "" && v.OK {
		d.name(name, string(d.AppendGrantID(nil, v.Grant, req.Key)))
	}
}

// name gives a name to an id.
func (d *desk) name(name, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids[name] = id
}

// id returns the id of a grant or a lease; a name that was not given to one is an id itself.
func (d *desk) id(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, ok := d.ids[name]; ok {
		return id
	}
	return name
}

// parse returns the words of a call, and its fields.
func parse(text string) (words []string, fields map[string]string) {
	fields = map[string]string{}
	for _, w := range strings.Fields(text) {
		if k, v, ok := strings.Cut(w, "="); ok {
			fields[k] = v
		} else {
			words = append(words, w)
		}
	}
	return words, fields
}

func duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// request returns a Request with fields.
func request(key string, n int, fields map[string]string) decider.Request {
	req := decider.Request{Key: key, N: n, WantID: fields["id"] != ""}
	req.Limit, _ = strconv.Atoi(fields["limit"])
	if q, ok := fields["queue"]; ok {
		req.Queue, _ = strconv.Atoi(q)
		req.OwnQueue = true
	}
	if own, ok := fields["own"]; ok {
		parts := strings.Split(own, "/")
		q := &decider.Quota{Period: duration(parts[1])}
		q.Count, _ = strconv.Atoi(parts[0])
		if len(parts) > 2 {
			q.Burst, _ = strconv.Atoi(parts[2])
		}
		req.Quota = q
	}
	return req
}

// named returns the outcome of a call with an error. Errors that decider.Decider does not document mean that it is
// unavailable.
func named(err error) string {
	for is, name := range map[error]string{
		decider.ErrNoGrant: "no_grant", decider.ErrNoLease: "no_lease", decider.ErrNoLeasing: "no_leasing", decider.ErrNoRate: "no_rate",
		decider.ErrOwnQuota: "own_quota", decider.ErrQuota: "bad_quota", decider.ErrMoved: "moved", decider.ErrResetUpstream: "reset_upstream", errNotAsked: "not_asked",
		context.Canceled: "canceled", context.DeadlineExceeded: "deadline",
	} {
		if errors.Is(err, is) {
			return name
		}
	}
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		return fmt.Sprintf("%s retry=%s", reason(r.Reason), span(r.RetryAfter))
	}
	return "unavailable error=" + strings.ReplaceAll(err.Error(), " ", "-")
}

func reason(r weir.Reason) string {
	if r == 0 {
		return "batch_denied"
	}
	return r.String()
}

// span returns a time to the millisecond.
func span(d time.Duration) string {
	if d == weir.Never {
		return "never"
	}
	return d.Round(time.Millisecond).String()
}

// verdict returns a Verdict as an outcome:
//
//	ok, or the reason   left=TOKENS retry=TIME waited=TIME place=N step=STEP rule=FIRST by=RULE answers=RULE,RULE
func verdict(v *decider.Verdict) string {
	text := "ok"
	if !v.OK {
		text = reason(v.Reason)
	}
	left, rule, by := "none", "none", "none"
	if n, ok := v.Remaining(); ok {
		left = strconv.Itoa(n)
	}
	if v.Rule != nil {
		rule = v.Rule.Name
	}
	if a := v.Denied(); a != nil {
		by = a.Rule.Name
	}
	var answers []string
	for _, a := range v.Answers {
		answers = append(answers, a.Rule.Name)
	}
	return fmt.Sprintf("%s left=%s retry=%s waited=%s place=%d step=%s rule=%s by=%s answers=%s", text, left, span(v.RetryAfter), span(v.Waited), v.Place, v.Step, rule, by, strings.Join(answers, ","))
}

// leased returns a Lease as an outcome.
func (d *desk) leased(l *decider.Lease) string {
	if l.Token == 0 {
		d.t.Error("a lease without a token")
	}
	return fmt.Sprintf("ok n=%d ttl=%s waited=%s limit=%d inflight=%d step=%s", l.N, span(l.TTL), span(l.Waited), l.Limit, l.Inflight, l.Step)
}

// explanation returns an Explanation as an outcome, with a part for each rule.
func explanation(x *decider.Explanation) string {
	text := "ok"
	if !x.Allowed {
		text = reason(x.Reason)
	}
	text += " retry=" + span(x.RetryAfter)
	for _, r := range x.Rules {
		text += fmt.Sprintf(" ; %s left=%d used=%d reset=%s allowed=%v retry=%s waiting=%d denied=%d", r.Rule.Name, r.Remaining, r.Used, span(r.ResetAfter), r.Allowed, span(r.RetryAfter), r.Waiting, r.Denied)
		if l := r.Lease; l != nil {
			text += fmt.Sprintf(" limit=%d inflight=%d leasewaiting=%d", l.Limit, l.Inflight, l.Waiting)
		}
	}
	return text
}

// tops returns the keys of Top as an outcome, with a part for each, by key.
func tops(seen []decider.Seen) string {
	byKey := map[string]string{}
	for _, s := range seen {
		byKey[s.Key] = fmt.Sprintf("%s allowed=%d denied=%d waiting=%d", s.Key, s.Allowed, s.Denied, s.Waiting)
	}
	text := "ok"
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		text += " ; " + byKey[key]
	}
	return text
}
