package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func testServer(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{MaxWaiting: 100, Memory: 1 << 20, MaxLeases: 100, Keys: 64, Rules: &config.Rules{Rules: []config.Rule{
		{Name: "own", Glob: "o*", Quota: config.Quota{Rate: config.Rate{Count: 3, Period: time.Second}}, OwnQuota: true, MaxWait: time.Minute},
		{Name: "all", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 3, Period: time.Hour}}, MaxWait: 24 * time.Hour, Concurrency: &config.Concurrency{Limit: 2, TTL: time.Second, MaxWait: time.Minute}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A rawPeer speaks to a Handler frame by frame.
type rawPeer struct {
	t    *testing.T
	conn net.Conn
	in   *frameReader
	out  *frameWriter
}

func newRawPeer(t *testing.T, h *Handler, silence time.Duration) *rawPeer {
	t.Helper()
	mine := newHello(Info{Node: "raw"}, nil)
	mine.SilenceMS = silence.Milliseconds()
	return greetRaw(t, h, mine)
}

// dial serves a Handler, and returns a connection to it.
func dial(t *testing.T, h *Handler) net.Conn {
	t.Helper()
	pipes := pipenet.Listen()
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(pipes) }()
	t.Cleanup(func() {
		srv.Close()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(ended)
		synctest.Wait()
	})
	conn, err := pipes.Dial(t.Context(), "tcp", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func greetRaw(t *testing.T, h *Handler, mine hello) *rawPeer {
	t.Helper()
	conn := dial(t, h)
	in, err := upgrade(conn, "weir", Path, "")
	if err != nil {
		t.Fatal(err)
	}
	p := &rawPeer{t, conn, newFrameReader(in), newFrameWriter(conn)}
	if _, err := (&handshake{in: p.in, out: p.out}).greetServer(mine); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *rawPeer) send(id uint64, k kind, payload []byte) {
	p.t.Helper()
	if err := p.out.send(id, k, payload); err != nil {
		p.t.Fatal(err)
	}
	p.out.flush()
}

// receive returns the next frame that does not tell a rule.
func (p *rawPeer) receive() frame {
	p.t.Helper()
	for {
		f, err := p.in.read()
		if err != nil {
			p.t.Fatal(err)
		}
		if f.kind != kindRule {
			return f
		}
	}
}

// Requests of an unknown kind get an error, and unknown fields at the end are ignored: they come
// from a newer version.
func TestNewerPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHandler(HandlerConfig{Decider: testServer(t)})
		if err != nil {
			t.Fatal(err)
		}
		p := newRawPeer(t, h, time.Second)
		p.send(7, 60, []byte("anything"))
		f := p.receive()
		if _, err := (&decoder{b: f.payload}).failure(); f.id != 7 || f.kind != kindFailure || err != ErrUnknown {
			t.Errorf("%+v %v", f, err)
		}
		p.send(8, kindDecide, append(appendRequest(nil, &decider.Request{Key: "a", N: 1}, 1<<40), "more"...))
		if f := p.receive(); f.id != 8 || f.kind != kindAnswer || f.payload[0]&isOK == 0 {
			t.Errorf("%+v", f)
		}
		p.send(9, kindDecide, appendText(nil, "a")) // nothing but the key, from an older version
		if f := p.receive(); f.id != 9 || f.kind != kindAnswer {
			t.Errorf("%+v", f)
		}
		for _, bad := range []string{"\x01 ", "\x01\x01", "\x00", "\x05a"} { // keys that no Client sends
			p.send(10, kindDecide, []byte(bad))
			if f := p.receive(); f.id != 10 || f.kind != kindFailure {
				t.Errorf("%q: %+v", bad, f)
			}
		}
		p.send(11, kindPing, []byte("12345678"))
		if f := p.receive(); f.kind != kindPong || string(f.payload) != "12345678" {
			t.Errorf("%+v", f)
		}
	})
}

// A peer that is silent without closing its connection is taken for dead, and its requests leave
// their queues.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testServer(t)
		h, err := NewHandler(HandlerConfig{Decider: s})
		if err != nil {
			t.Fatal(err)
		}
		p := newRawPeer(t, h, time.Second)
		wait := appendRequest(appendSpan(nil, 0), &decider.Request{Key: "a", N: 3}, 0)
		p.send(0, kindWait, wait)
		if f := p.receive(); f.kind != kindAnswer {
			t.Errorf("%+v", f)
		}
		p.send(1, kindWait, wait)
		p.send(1, kindWait, wait) // the number is in use
		if f := p.receive(); f.id != 1 || f.kind != kindFailure {
			t.Errorf("%+v", f)
		}
		time.Sleep(2 * time.Second)
		if st := h.Stats(); s.Waiting() != 1 || st.Waiting != 1 || st.Slow != 0 {
			t.Errorf("%d wait: %+v", s.Waiting(), st)
		}
		time.Sleep(5 * time.Second)
		if st := h.Stats(); s.Waiting() != 0 || st.Waiting != 0 || st.Slow != 1 || st.Conns != 0 {
			t.Errorf("%d wait: %+v", s.Waiting(), st)
		}
	})
}

// A peer that does not read its answers is disconnected, and takes a bounded memory until then,
// whether the reader of its requests writes the answers or another goroutine does.
func TestSlowReader(t *testing.T) {
	for _, first := range []kind{kindPing, kindCall} {
		synctest.Test(t, func(t *testing.T) {
			calls := map[string]func(context.Context, Info, []byte) ([]byte, error){
				"nap": func(context.Context, Info, []byte) ([]byte, error) { time.Sleep(time.Millisecond); return nil, nil },
			}
			h, err := NewHandler(HandlerConfig{Decider: testServer(t), Calls: calls})
			if err != nil {
				t.Fatal(err)
			}
			p := newRawPeer(t, h, time.Second)
			p.send(1, first, appendText(appendSpan(nil, 0), "nap"))
			time.Sleep(2 * time.Millisecond)
			var sent atomic.Int64
			go func() {
				ping := bytes.Repeat([]byte("x"), 1<<10)
				for sent.Load() < 8*fullBuffer && p.out.send(0, kindPing, ping) == nil {
					p.out.flush()
					sent.Add(int64(len(ping)))
				}
			}()
			time.Sleep(10 * time.Second)
			if st := h.Stats(); st.Slow != 1 || st.Conns != 0 {
				t.Errorf("%+v", st)
			}
			if sent := sent.Load(); sent > 2*fullBuffer {
				t.Errorf("%d bytes of answers were kept", sent)
			}
		})
	}
}

// Large frames go both ways, and too large ones are errors.
func TestLargeFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		echo := func(_ context.Context, from Info, body []byte) ([]byte, error) {
			if string(body) == "fail" {
				return nil, errors.New("it failed for " + from.Node)
			}
			if len(body) == 8 {
				return make([]byte, MaxFrame), nil
			}
			return body, nil
		}
		h, err := NewHandler(HandlerConfig{Decider: testServer(t), Calls: map[string]func(context.Context, Info, []byte) ([]byte, error){"echo": echo}})
		if err != nil {
			t.Fatal(err)
		}
		pipes := pipenet.Listen()
		srv := &http.Server{Handler: h}
		go func() { _ = srv.Serve(pipes) }()
		defer srv.Close()
		c, err := New(Config{URL: "http://weir", Dial: pipes.Dial, Self: Info{Node: "me"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		synctest.Wait()
		for _, size := range []int{0, 1, readSize - 20, readSize, 5*readSize + 1, 3 << 20} {
			body := bytes.Repeat([]byte("ab"), size/2+1)[:size]
			if got, err := c.Call(t.Context(), "echo", body); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d: %d bytes, %v", size, len(got), err)
			}
		}
		if _, err := c.Call(t.Context(), "echo", []byte("fail")); err == nil || err.Error() != "it failed for me" {
			t.Error(err)
		}
		if _, err := c.Call(t.Context(), "else", nil); err != ErrUnknown {
			t.Error(err)
		}
		if _, err := c.Call(t.Context(), "echo", make([]byte, MaxFrame)); err != ErrTooLarge {
			t.Error(err)
		}
		if _, err := c.Call(t.Context(), "echo", make([]byte, 8)); err != ErrTooLarge {
			t.Error(err)
		}
		long := make([]decider.Request, 300)
		for i := range long {
			long[i] = decider.Request{Key: strings.Repeat("k", maxKey), N: 1}
		}
		if _, err := c.Batch(t.Context(), long, false, make([]decider.Verdict, len(long))); err != ErrTooLarge {
			t.Error(err)
		}
		if ok, err := c.Batch(t.Context(), long[:200], false, make([]decider.Verdict, len(long))); err != nil || ok {
			t.Error(ok, err)
		}
		if st := c.Stats(); st.Connects != 1 || st.Inflight != 0 {
			t.Errorf("%+v", st)
		}
	})
}

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
	numbers := new(ruleNumbers)
	for range 300 {
		list = append(list, new(decider.RuleRef))
		numbers.add(list[len(list)-1])
	}
	for range rounds {
		want := randomVerdict(r, list)
		now := want.At + time.Duration(r.Int64N(1<<40))
		b := appendVerdict(nil, &outgoing{Verdict: &want, id: []byte(want.Grant.ID), now: now}, numbers)
		if want.Grant == (decider.Grant{}) {
			want.Grant.ID = ""
		}
		got := decider.Verdict{Answers: []decider.Answer{}}
		d := decoder{b: append(b, "later"...)}
		if d.verdict(&got, now, list); d.failed || string(d.b) != "later" || !reflect.DeepEqual(got, want) {
			t.Fatalf("\n%+v\n%+v\nrest %q", want, got, d.b)
		}
		for n := range b { // an older version sends less
			d := decoder{b: b[:n]}
			d.verdict(&got, now, list)
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
	s := &session{out: newFrameWriter(nil)}
	l := &link{client: &Client{}}
	for i := range 3000 {
		rule := full
		rule.Limit = i + 1
		v := []decider.Verdict{{OK: true, Rule: &rule, Answers: []decider.Answer{}}}
		if err := s.out.open(); err != nil {
			t.Fatal(err)
		}
		s.tellRules(v)
		s.out.finish(appendVerdict(s.out.start(1, kindAnswer), &outgoing{Verdict: &v[0]}, &s.rules))
		sent := append([]byte(nil), s.out.buf...)
		s.out.buf = s.out.buf[:0]
		s.out.close()
		in := newFrameReader(bufio.NewReader(bytes.NewReader(sent)))
		f, _ := in.read()
		if err := l.receive(f, 0); err != nil {
			t.Fatal(err)
		}
		f, _ = in.read()
		got := decider.Verdict{Answers: []decider.Answer{}}
		d := decoder{b: f.payload}
		if d.verdict(&got, 0, l.rules); d.failed || !reflect.DeepEqual(got.Rule, &rule) {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	if len(l.rules) != maxRules {
		t.Errorf("%d rules are kept", len(l.rules))
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
	if _, err := readExplanation([]byte(`{"Rules":[{"Rule":null}]}`)); !errors.Is(err, errInvalid) {
		t.Error(err)
	}
}

// Errors keep their identity.
func TestFailures(t *testing.T) {
	all := append([]error{weir.Reject(weir.QueueFull, time.Second), &weir.Rejection{Reason: weir.OverLimit, RetryAfter: 12345}, weir.Reject(weir.TooLate, weir.Never)}, codes[1:]...)
	for _, want := range all {
		d := decoder{b: appendFailure(nil, want, decider.Share)}
		if step, got := d.failure(); !reflect.DeepEqual(got, want) || step != decider.Share || d.failed {
			t.Errorf("%v: %v %v", want, got, step)
		}
	}
	d := decoder{b: appendFailure(nil, errors.New("the disk is full"), 0)}
	if _, got := d.failure(); !errors.Is(got, ErrUnavailable) || !strings.Contains(got.Error(), "the disk is full") {
		t.Error(got)
	}
}

// A step has the same number in all versions, and an unknown one is taken for the last.
func TestSteps(t *testing.T) {
	for code, name := range map[byte]string{0: "exact", 1: "known", 2: "share", 3: "rule", 200: "rule"} {
		d := decoder{b: []byte{code}}
		if s := d.step(); s.String() != name || code < 200 && stepCode(s) != code {
			t.Errorf("%d: %v with the number %d", code, s, stepCode(s))
		}
	}
	for s := range decider.StepsCount {
		d := decoder{b: []byte{stepCode(s)}}
		if got := d.step(); got != s {
			t.Errorf("%v arrives as %v", s, got)
		}
	}
}
