package httplimit

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/ratelimitfield"
)

// Legacy is the form of the X-RateLimit headers.
type Legacy uint8

const (
	LegacyOff   Legacy = iota
	LegacyDelta        // X-RateLimit-Reset is in how many seconds
	LegacyUnix         // X-RateLimit-Reset is when, in seconds since 1970
)

// fields writes the headers by which clients learn what they may yet ask for,
// of draft-ietf-httpapi-ratelimit-headers-10.
type fields struct {
	off    bool
	legacy Legacy
	names  []string // of the rules, as structured fields spell them; empty if clients do not hear of one
	shared atomic.Pointer[policies]
}

// policies are values of RateLimit-Policy that many responses have in common.
type policies struct {
	quotas []gcra.Quota
	first  [][]string // the value of the first rules: of one, of two …
}

func (f *fields) init(cfg Config) {
	f.off, f.legacy = cfg.NoFields, cfg.Legacy
	for _, r := range cfg.Rules {
		name := ""
		if !cfg.Shadow && !r.rule.Shadow { // a client that held back would spoil the trial
			name = ratelimitfield.Quote(r.rule.Name)
		}
		f.names = append(f.names, name)
	}
}

// write sets the headers, of what the rules have answered.
func (f *fields) write(h http.Header, r *http.Request, v *admission.Visit[*http.Request]) {
	answers := v.Answers()
	if len(answers) == 0 || f.off && f.legacy == LegacyOff {
		return
	}
	if !f.off {
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
	if f.legacy != LegacyOff {
		f.writeLegacy(h, answers)
	}
}

// add adds to what a Middleware around this one has set.
func add(h http.Header, name string, value []string) {
	if old := h[name]; len(old) > 0 {
		value = append(old[:len(old):len(old)], value...)
	}
	h[name] = value
}

// policy returns the value of RateLimit-Policy for the first rules.
func (f *fields) policy(answers []admission.Answer) []string {
	shared := f.shared.Load()
	if shared.of(answers) {
		return shared.first[len(answers)-1]
	}
	made := new(policies)
	var b []byte
	for i := range answers {
		made.quotas = append(made.quotas, answers[i].Quota)
		b = f.appendPolicy(b, i, &answers[i].Quota)
		if len(b) == 0 {
			made.first = append(made.first, nil)
		} else {
			made.first = append(made.first, []string{string(b)})
		}
	}
	if shared == nil || len(shared.quotas) < len(answers) {
		f.shared.Store(made)
	}
	return made.first[len(answers)-1]
}

// of reports whether these are the policies of all who have answered.
func (p *policies) of(answers []admission.Answer) bool {
	if p == nil || len(p.quotas) < len(answers) {
		return false
	}
	for i := range answers {
		if p.quotas[i] != answers[i].Quota {
			return false
		}
	}
	return true
}

// silent reports whether clients are told nothing of a rule.
func (f *fields) silent(i int, q *gcra.Quota) bool { return f.names[i] == "" || q.Unlimited() }

// appendPolicy appends what is allowed.
func (f *fields) appendPolicy(b []byte, i int, q *gcra.Quota) []byte {
	if f.silent(i, q) {
		return b
	}
	return ratelimitfield.OfBucket(q).Append(b, f.names[i])
}

// appendLeft appends what is left, and in how many seconds there is more.
func (f *fields) appendLeft(b []byte, i int, a *admission.Answer) []byte {
	if f.silent(i, &a.Quota) {
		return b
	}
	left := a.Left()
	return ratelimitfield.AppendLeft(b, f.names[i], left, ratelimitfield.UntilMore(&a.Quota, left, &a.Decision))
}

// writeLegacy tells of the rule that has least left.
func (f *fields) writeLegacy(h http.Header, answers []admission.Answer) {
	least := -1
	for i := range answers {
		if !f.silent(i, &answers[i].Quota) && (least < 0 || answers[i].Left() < answers[least].Left()) {
			least = i
		}
	}
	if least < 0 {
		return
	}
	a := &answers[least]
	if outer, err := strconv.Atoi(h.Get("X-Ratelimit-Remaining")); err == nil && outer < a.Left() {
		return // a Middleware around this one has less left
	}
	h["X-Ratelimit-Limit"] = []string{strconv.Itoa(a.Quota.Burst())}
	h["X-Ratelimit-Remaining"] = []string{strconv.Itoa(a.Left())}
	if a.ResetAfter != weir.Never {
		reset := int64((a.ResetAfter + time.Second - 1) / time.Second)
		if f.legacy == LegacyUnix {
			reset += time.Now().Unix()
		}
		h["X-Ratelimit-Reset"] = []string{strconv.FormatInt(reset, 10)}
	}
}
