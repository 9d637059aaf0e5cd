package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// randomVerdict returns a verdict with any fields.
func randomVerdict(r *rand.Rand, rules []*decider.RuleRef) decider.Verdict {
	some := func() time.Duration {
		return []time.Duration{0, 1, -1, time.Second, math.MaxInt64, math.MaxInt64 - 1, time.Duration(r.Int64())}[r.IntN(7)]
	}
	rule := func() *decider.RuleRef { return rules[r.IntN(len(rules))] }
	v := decider.Verdict{
		OK: r.IntN(2) == 0, Reason: weir.Reason(r.IntN(int(weir.Recovering) + 1)), RetryAfter: some(), At: time.Duration(r.Int64N(1 << 60)), Waited: some(), Place: r.IntN(1 << 30),
		Step: decider.Step(r.IntN(int(decider.StepsCount))), Answers: []decider.Answer{},
	}
	if r.IntN(4) > 0 {
		v.Rule = rule()
	}
	for range r.IntN(4) {
		a := decider.Answer{Rule: rule(), At: v.At - time.Duration(r.Int64N(1<<40))}
		a.OK, a.Remaining, a.RetryAfter, a.ResetAfter = r.IntN(2) == 0, r.Int()-r.Int(), some(), some()
		v.Answers = append(v.Answers, a)
	}
	if r.IntN(2) == 0 {
		v.Grant = decider.Grant{N: r.IntN(100), At: v.At - 5, Rules: r.Uint64(), ID: strings.Repeat("i", r.IntN(50))}
	}
	return v
}

// Verdicts arrive as they were sent, and unknown fields at their end do no harm.
func TestVerdicts(t *testing.T) { verdicts(t, 3000) }

func verdicts(t *testing.T, rounds int) {
	r := rand.New(rand.NewPCG(1, 1))
	var list []*decider.RuleRef
	numbers := new(RuleNumbers)
	for range 300 {
		list = append(list, new(decider.RuleRef))
		numbers.add(list[len(list)-1])
	}
	for range rounds {
		want := randomVerdict(r, list)
		now := want.At + time.Duration(r.Int64N(1<<40))
		b := AppendVerdict(nil, &Outgoing{Verdict: &want, ID: []byte(want.Grant.ID), Now: now}, numbers)
		if want.Grant == (decider.Grant{}) {
			want.Grant.ID = ""
		}
		got := decider.Verdict{Answers: []decider.Answer{}}
		d := Decoder{Rest: append(b, "later"...)}
		if d.Verdict(&got, now, list); d.Failed || string(d.Rest) != "later" || !reflect.DeepEqual(got, want) {
			t.Fatalf("\n%+v\n%+v\nrest %q", want, got, d.Rest)
		}
		for n := range b { // an older version sends less
			d := Decoder{Rest: b[:n]}
			d.Verdict(&got, now, list)
		}
	}
}

// Rules arrive as they were sent, also when there are more than a connection has numbers for.
func TestManyRules(t *testing.T) {
	full := decider.RuleRef{
		Name: "r", Mode: "shadow", Rate: decider.Rate{Count: 2, Period: 90 * time.Millisecond}, Limit: 4, Algorithm: "gcra",
		Descriptor: &decider.DescriptorRef{Name: "d", Quota: true, Metadata: map[string]any{"a": "b"}},
		Kind:       "glob", Pattern: "*", Per: "rule", Text: "2/90ms burst 4", Trial: "3/s", MaxQueue: 7,
	}
	out, told, known := NewWriter(nil), RuleNumbers{}, KnownRules{}
	for i := range 3000 {
		rule := full
		rule.Limit = i + 1
		v := []decider.Verdict{{OK: true, Rule: &rule, Answers: []decider.Answer{}}}
		if err := out.Open(); err != nil {
			t.Fatal(err)
		}
		told.Tell(out, v)
		out.Finish(AppendVerdict(out.Start(1, KindAnswer), &Outgoing{Verdict: &v[0]}, &told))
		sent := append([]byte(nil), out.buf...)
		out.buf = out.buf[:0]
		out.Close()
		in := NewReader(bufio.NewReader(bytes.NewReader(sent)))
		f, _ := in.Read()
		if err := known.Learn(f); err != nil {
			t.Fatal(err)
		}
		f, _ = in.Read()
		got := decider.Verdict{Answers: []decider.Answer{}}
		d := Decoder{Rest: f.Payload}
		if d.Verdict(&got, 0, known); d.Failed || !reflect.DeepEqual(got.Rule, &rule) {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	if len(known) != maxRules {
		t.Errorf("%d rules are kept", len(known))
	}
}

// Rules of versions that told the whole rule of the file are read, and those versions read ours.
func TestRulesOfOlderVersions(t *testing.T) {
	for _, tt := range []struct {
		text string
		want decider.RuleRef
	}{
		{`{"Name":"b","Key":"","Glob":"*","Queue":null,"Mode":"","Memory":0,"Candidate":null,"Burst":9,"Algorithm":"","Zone":"","Rate":{"Count":7,"Period":1000000000}}`,
			decider.RuleRef{Name: "b", Rate: decider.Rate{Count: 7, Period: time.Second}, Limit: 9}},
		{`{"Name":"c","Burst":0,"Algorithm":"gcra","Rate":{"Count":7,"Period":1000000000},"Candidate":{"Rate":{"Count":1,"Period":5}}}`,
			decider.RuleRef{Name: "c", Rate: decider.Rate{Count: 7, Period: time.Second}, Limit: 7, Algorithm: "gcra"}},
		{`{"Name":"w","Per":"rule","Mode":"shadow","Burst":9,"Algorithm":"fixed","Rate":{"Count":7,"Period":1000000000},"Queue":4,"MaxWait":3,
			"Descriptor":{"Path":"p","Unlimited":false,"Name":"d","Replaces":["a"],"Quota":true,"Shadow":true,"Metadata":{"a":"b"},"Shares":null}}`,
			decider.RuleRef{Name: "w", Mode: "shadow", Per: "rule", Rate: decider.Rate{Count: 7, Period: time.Second}, Limit: 7, Algorithm: "fixed",
				Descriptor: &decider.DescriptorRef{Name: "d", Quota: true, Shadow: true, Metadata: map[string]any{"a": "b"}}}},
	} {
		got, err := readRule([]byte(tt.text))
		if err != nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%v\n%+v\n%+v", err, *got, tt.want)
		}
		ours, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var old struct {
			Name, Mode, Algorithm string
			Burst                 int
			Rate                  struct {
				Count  int
				Period time.Duration
			}
			Candidate  *struct{}
			Queue      *int
			Descriptor *config.Descriptor
		}
		if err := json.Unmarshal(ours, &old); err != nil || old.Name != tt.want.Name || old.Mode != tt.want.Mode || old.Algorithm != tt.want.Algorithm ||
			old.Burst != tt.want.Limit || old.Rate.Count != tt.want.Rate.Count || old.Rate.Period != tt.want.Rate.Period || (old.Descriptor != nil) != (tt.want.Descriptor != nil) {
			t.Errorf("%v\n%s\n%+v", err, ours, old)
		}
	}
	if _, err := ReadExplanation([]byte(`{"Rules":[{"Rule":null}]}`)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// Errors keep their identity.
func TestFailures(t *testing.T) {
	all := append([]error{weir.Reject(weir.QueueFull, time.Second), &weir.Rejection{Reason: weir.OverLimit, RetryAfter: 12345}, weir.Reject(weir.TooLate, weir.Never)}, errorCodes[1:]...)
	for _, want := range all {
		d := Decoder{Rest: AppendFailure(nil, want, decider.Share)}
		if step, got := d.Failure(); !reflect.DeepEqual(got, want) || step != decider.Share || d.Failed {
			t.Errorf("%v: %v %v", want, got, step)
		}
	}
	d := Decoder{Rest: AppendFailure(nil, errors.New("the disk is full"), 0)}
	if _, got := d.Failure(); !errors.Is(got, ErrUnavailable) || !strings.Contains(got.Error(), "the disk is full") {
		t.Error(got)
	}
}

// A step has the same number in all versions, and an unknown one is taken for the last.
func TestSteps(t *testing.T) {
	for code, name := range map[byte]string{0: "exact", 1: "known", 2: "share", 3: "rule", 200: "rule"} {
		d := Decoder{Rest: []byte{code}}
		if s := d.step(); s.String() != name || code < 200 && stepCode(s) != code {
			t.Errorf("%d: %v with the number %d", code, s, stepCode(s))
		}
	}
	for s := range decider.StepsCount {
		d := Decoder{Rest: []byte{stepCode(s)}}
		if got := d.step(); got != s {
			t.Errorf("%v arrives as %v", s, got)
		}
	}
}

// A reason of a later version is weir.Closed. The numbers of reasons are part of the protocol.
func TestReasonsOfLaterPeers(t *testing.T) {
	names := []string{"", "over_rate", "over_limit", "queue_full", "overdue", "too_late", "closed", "over_burst", "throttled", "recovering"}
	for n := range 256 {
		want := "closed"
		if n < len(names) {
			want = names[n]
		}
		if got := (&Decoder{Rest: []byte{byte(n)}}).reason(); got.String() != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
