package httplimit

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/keyed"
)

// Fields is a set of response headers that tell clients their limits. Sets are
// combined by |, as in FieldsDraft|FieldsDelta.
type Fields uint8

const (
	// FieldsDraft is RateLimit-Policy and RateLimit, after
	// draft-ietf-httpapi-ratelimit-headers-11.
	FieldsDraft Fields = 1 << iota
	// FieldsDelta is X-RateLimit-Limit, -Remaining and -Reset, for the rule with
	// the least left. X-RateLimit-Reset is a number of seconds from now.
	FieldsDelta
	// FieldsUnix is FieldsDelta with X-RateLimit-Reset in seconds since 1970.
	FieldsUnix
	// FieldsNone is no header.
	FieldsNone
	// FieldsDraftNext is FieldsDraft with the parameters a and w of RateLimit in place of r and
	// t, as proposed for a later draft.
	FieldsDraftNext
)

// validate returns nil if the set makes sense.
func (f Fields) validate() error {
	switch {
	case f&^(FieldsDraft|FieldsDelta|FieldsUnix|FieldsNone|FieldsDraftNext) != 0:
		return fmt.Errorf("Fields = %d: must be made of FieldsDraft, FieldsDraftNext, FieldsDelta, FieldsUnix and FieldsNone", f)
	case f&FieldsNone != 0 && f != FieldsNone, f&FieldsDelta != 0 && f&FieldsUnix != 0, f&FieldsDraft != 0 && f&FieldsDraftNext != 0:
		return fmt.Errorf("Fields = %d: FieldsNone stands alone, FieldsDelta excludes FieldsUnix, and FieldsDraft FieldsDraftNext", f)
	}
	return nil
}

// fields writes the Fields of responses.
type fields struct {
	draft, delta, unix bool
	params             ratelimitfield.Params // of draft

	names  []string // of the rules, quoted as in structured fields; empty for a rule that clients are not told about
	shared atomic.Pointer[policies]
}

// policies caches values of RateLimit-Policy.
type policies struct {
	policies []keyed.Policy
	values   [][]string // values[i] describes the rules up to i
}

func (f *fields) init(cfg Config) {
	f.draft, f.params = cfg.Fields == 0 || cfg.Fields&(FieldsDraft|FieldsDraftNext) != 0, ratelimitfield.Draft
	if cfg.Fields&FieldsDraftNext != 0 {
		f.params = ratelimitfield.Next
	}
	f.delta, f.unix = cfg.Fields&FieldsDelta != 0, cfg.Fields&FieldsUnix != 0
	for _, r := range cfg.Rules {
		name := ""
		if !cfg.Shadow && !r.rule.Shadow { // clients that slow down would distort the counts
			name = ratelimitfield.Quote(r.rule.Name)
		}
		f.names = append(f.names, name)
	}
}

// write sets the headers for the answers of the rules.
func (f *fields) write(h http.Header, answers []admission.Answer) {
	if len(answers) == 0 {
		return
	}
	if f.draft {
		if policy := f.policy(answers); policy != nil {
			add(h, "Ratelimit-Policy", policy)
		}
		var buf [160]byte
		b := buf[:0]
		for i := range answers {
			b = f.appendLeft(b, i, &answers[i])
		}
		if len(b) > 0 {
			add(h, "Ratelimit", []string{string(b)})
		}
	}
	if f.delta || f.unix {
		f.writeLegacy(h, answers)
	}
}

// add appends values to the ones of an outer Middleware.
func add(h http.Header, name string, value []string) {
	if old := h[name]; len(old) > 0 {
		value = append(old[:len(old):len(old)], value...)
	}
	h[name] = value
}

// policy returns the value of RateLimit-Policy for the rules that have answered.
func (f *fields) policy(answers []admission.Answer) []string {
	shared := f.shared.Load()
	if shared.describe(answers) {
		return shared.values[len(answers)-1]
	}
	made := new(policies)
	var b []byte
	for i := range answers {
		made.policies = append(made.policies, answers[i].Policy)
		b = f.appendPolicy(b, i, &answers[i].Policy)
		if len(b) == 0 {
			made.values = append(made.values, nil)
		} else {
			made.values = append(made.values, []string{string(b)})
		}
	}
	if shared == nil || len(shared.policies) < len(answers) {
		f.shared.Store(made)
	}
	return made.values[len(answers)-1]
}

// describe reports whether p has the policies of all the answers.
func (p *policies) describe(answers []admission.Answer) bool {
	if p == nil || len(p.policies) < len(answers) {
		return false
	}
	for i := range answers {
		if p.policies[i] != answers[i].Policy {
			return false
		}
	}
	return true
}

// silent reports whether clients are not told about a rule.
func (f *fields) silent(i int, p *keyed.Policy) bool { return f.names[i] == "" || *p == keyed.Policy{} }

// appendPolicy appends an item of RateLimit-Policy.
func (f *fields) appendPolicy(b []byte, i int, p *keyed.Policy) []byte {
	if f.silent(i, p) {
		return b
	}
	var item ratelimitfield.Policy
	switch {
	case p.Window > 0:
		item = ratelimitfield.OfWindow(p.Limit, p.Window)
	case p.Concurrent:
		item = ratelimitfield.Policy{Quota: p.Limit, Concurrent: true}
	default:
		item = ratelimitfield.OfBucket(p.Limit, p.Rate)
	}
	return item.Append(b, f.names[i])
}

// appendLeft appends an item of RateLimit.
func (f *fields) appendLeft(b []byte, i int, a *admission.Answer) []byte {
	if f.silent(i, &a.Policy) {
		return b
	}
	left := a.Left()
	return f.params.AppendLeft(b, f.names[i], left, untilMore(a, left))
}

// untilMore returns the time until a rule has more for the client. It is weir.Never if that is
// not known.
func untilMore(a *admission.Answer, left int) time.Duration {
	p := &a.Policy
	switch {
	case !a.OK:
		return a.RetryAfter
	case a.ResetAfter == 0: // not known
		return weir.Never
	case p.Window == 0:
		return ratelimitfield.UntilMore(p.Limit, p.Rate, left, &a.Decision)
	case p.Rate > 0, left == p.Limit: // events fade out of a sliding window
		return weir.Never
	}
	return a.ResetAfter // all of it at once
}

// writeLegacy sets the X-RateLimit headers for the rule of a rate with the least left.
func (f *fields) writeLegacy(h http.Header, answers []admission.Answer) {
	least := -1
	for i := range answers {
		if !f.silent(i, &answers[i].Policy) && !answers[i].Policy.Concurrent && (least < 0 || answers[i].Left() < answers[least].Left()) {
			least = i
		}
	}
	if least < 0 {
		return
	}
	a := &answers[least]
	if outer, err := strconv.Atoi(h.Get("X-Ratelimit-Remaining")); err == nil && outer < a.Left() {
		return // an outer Middleware has less left
	}
	h["X-Ratelimit-Limit"] = []string{strconv.Itoa(a.Policy.Limit)}
	h["X-Ratelimit-Remaining"] = []string{strconv.Itoa(a.Left())}
	if a.ResetAfter != weir.Never {
		reset := int64((a.ResetAfter + time.Second - 1) / time.Second)
		if f.unix {
			reset += time.Now().Unix()
		}
		h["X-Ratelimit-Reset"] = []string{strconv.FormatInt(reset, 10)}
	}
}
