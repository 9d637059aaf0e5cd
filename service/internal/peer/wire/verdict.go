package wire

import (
	"encoding/binary"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Flags of a request.
const (
	hasLimit = 1 << iota
	hasQueue
	hasQuota
	WantsID
	WantsWaits // that it begins to wait
)

// AppendRequest appends a request for tokens.
func AppendRequest(b []byte, r *decider.Request, flags uint64) []byte {
	if r.Limit > 0 {
		flags |= hasLimit
	}
	if r.OwnQueue {
		flags |= hasQueue
	}
	if r.Quota != nil {
		flags |= hasQuota
	}
	if r.WantID {
		flags |= WantsID
	}
	b = binary.AppendUvarint(AppendText(b, r.Key), flags)
	b = binary.AppendUvarint(b, uint64(r.N))
	if r.Limit > 0 {
		b = binary.AppendUvarint(b, uint64(r.Limit))
	}
	if r.OwnQueue {
		b = appendSigned(b, int64(r.Queue))
	}
	if q := r.Quota; q != nil {
		b = appendSigned(appendSigned(b, int64(q.Count)), int64(q.Period))
		b = appendSigned(appendSigned(b, int64(q.Burst)), int64(q.Unit))
	}
	return b
}

// Request reads a request for tokens. Its key is a part of the payload.
func (d *Decoder) Request(r *decider.Request) (flags uint64) {
	*r = decider.Request{Key: d.Key()}
	flags = d.Uvarint()
	r.N = d.Count()
	if flags&hasLimit != 0 {
		r.Limit = d.Count()
	}
	if r.OwnQueue = flags&hasQueue != 0; r.OwnQueue {
		r.Queue = int(d.signed())
	}
	if flags&hasQuota != 0 {
		r.Quota = &decider.Quota{
			Count: int(d.signed()), Period: time.Duration(d.signed()), Burst: int(d.signed()), Unit: time.Duration(d.signed()),
		}
	}
	r.WantID = flags&WantsID != 0
	return flags
}

// maxKey bounds a key, in bytes.
const maxKey = 64 << 10

// Key reads a key, which must be as decider.ParseKey returns it.
func (d *Decoder) Key() string {
	key := d.Text()
	if parsed, err := decider.ParseKey(key, maxKey); err != nil || len(parsed) != len(key) {
		d.Fail()
		return ""
	}
	return key
}

// Flags of a verdict.
const (
	isOK = 1 << iota
	hasRule
	hasAnswers
	hasDenial
	hasWait
	hasGrant
	hasStep
	droppedQuota // Descriptors has set Request.Quota to nil
)

// An Outgoing is a verdict on its way to a peer.
type Outgoing struct {
	*decider.Verdict
	ID      []byte // of the grant; nil if the peer does not want it
	Now     time.Duration
	Dropped bool
}

func (v *Outgoing) flags() (flags uint64) {
	if v.OK {
		flags = isOK
	}
	if v.Rule != nil {
		flags |= hasRule
	}
	if len(v.Answers) > 0 {
		flags |= hasAnswers
	}
	if v.Reason != 0 || v.RetryAfter != 0 {
		flags |= hasDenial
	}
	if v.Waited != 0 || v.Place != 0 {
		flags |= hasWait
	}
	if v.Grant != (decider.Grant{}) {
		flags |= hasGrant
	}
	if v.Step != 0 {
		flags |= hasStep
	}
	if v.Dropped {
		flags |= droppedQuota
	}
	return flags
}

// AppendVerdict appends a verdict, which refers to rules by their numbers.
func AppendVerdict(b []byte, v *Outgoing, rules *RuleNumbers) []byte {
	flags := v.flags()
	b = binary.AppendUvarint(b, flags)
	b = AppendSpan(b, v.Now-v.At)
	if flags&hasRule != 0 {
		b = binary.AppendUvarint(b, rules.number(v.Rule))
	}
	if flags&hasAnswers != 0 {
		b = binary.AppendUvarint(b, uint64(len(v.Answers)))
		for i := range v.Answers {
			b = appendAnswer(b, &v.Answers[i], v.At, rules)
		}
	}
	if flags&hasDenial != 0 {
		b = AppendSpan(append(b, byte(v.Reason)), v.RetryAfter)
	}
	if flags&hasWait != 0 {
		b = binary.AppendUvarint(AppendSpan(b, v.Waited), uint64(v.Place))
	}
	if g := &v.Grant; flags&hasGrant != 0 {
		b = binary.AppendUvarint(b, uint64(g.N))
		b = binary.BigEndian.AppendUint64(AppendSpan(b, v.At-g.At), g.Rules)
		b = AppendText(AppendSpan(b, 0), v.ID) // older versions read a span
	}
	if flags&hasStep != 0 {
		b = append(b, stepCode(v.Step))
	}
	return b
}

// appendAnswer appends the answer of a rule as an element, which is shorter than 128 bytes.
func appendAnswer(b []byte, a *decider.Answer, at time.Duration, rules *RuleNumbers) []byte {
	begin := len(b)
	b = binary.AppendUvarint(append(b, 0), rules.number(a.Rule))
	ok := byte(0)
	if a.OK {
		ok = 1
	}
	b = appendSigned(append(b, ok), int64(a.Remaining))
	b = AppendSpan(AppendSpan(b, a.RetryAfter), a.ResetAfter)
	b = AppendSpan(b, at-a.At)
	b[begin] = byte(len(b) - begin - 1)
	return b
}

// Verdict reads a verdict that was decided before now.
func (d *Decoder) Verdict(v *decider.Verdict, now time.Duration, rules KnownRules) (dropped bool) {
	flags := d.Uvarint()
	*v = decider.Verdict{OK: flags&isOK != 0, At: now - d.Span(), Answers: v.Answers[:0]}
	if flags&hasRule != 0 {
		v.Rule = d.rule(rules)
	}
	if flags&hasAnswers != 0 {
		for n := d.Uvarint(); n > 0; n-- {
			if len(d.Rest) == 0 {
				d.Fail()
				break
			}
			e := d.Element()
			v.Answers = append(v.Answers, e.answer(v.At, rules))
			d.Failed = d.Failed || e.Failed
		}
	}
	if flags&hasDenial != 0 {
		v.Reason, v.RetryAfter = d.reason(), d.Span()
	}
	if flags&hasWait != 0 {
		v.Waited, v.Place = d.Span(), d.Count()
	}
	if flags&hasGrant != 0 {
		v.Grant = decider.Grant{N: d.Count(), At: v.At - d.Span(), Rules: d.fixed()}
		d.Span()
		v.Grant.ID = string(d.bytes())
	}
	if flags&hasStep != 0 {
		v.Step = d.step()
	}
	return flags&droppedQuota != 0
}

func (d *Decoder) answer(at time.Duration, rules KnownRules) decider.Answer {
	a := decider.Answer{Rule: d.rule(rules)}
	a.OK = d.Octet()&1 != 0
	a.Remaining = int(d.signed())
	a.RetryAfter, a.ResetAfter = d.Span(), d.Span()
	a.At = at - d.Span()
	return a
}

// rule reads the number of a rule that the peer has told.
func (d *Decoder) rule(rules KnownRules) *decider.RuleRef {
	n := d.Uvarint()
	if n >= uint64(len(rules)) || rules[n] == nil {
		d.Fail()
		return noRule
	}
	return rules[n]
}

// noRule stands for the rule in a payload that is not valid.
var noRule = new(decider.RuleRef)
