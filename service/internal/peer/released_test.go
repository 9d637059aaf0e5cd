package peer

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

var record = flag.String("record", "", "record the conversation of this version as testdata/released/`NAME`")

// converse makes calls of each kind, one after the other, and returns what they return, without ids.
func converse(c *Client) string {
	ctx, b := context.Background(), new(strings.Builder)
	verdict := func(what string, v *decider.Verdict, err error) {
		fmt.Fprintf(b, "%s: %t %s %s %s", what, v.OK, v.Reason, v.RetryAfter, v.Step)
		if v.Rule != nil {
			fmt.Fprintf(b, " %s %d/%s", v.Rule.Name, v.Rule.Rate.Count, v.Rule.Rate.Period)
		}
		for _, a := range v.Answers {
			fmt.Fprintf(b, " [%s %t %d]", a.Rule.Name, a.OK, a.Remaining)
		}
		fmt.Fprintf(b, " granted %d, %v\n", v.Grant.N, err)
	}
	var v decider.Verdict
	err := c.Decide(ctx, &decider.Request{Key: "a", N: 2, WantID: true}, &v)
	verdict("decide", &v, err)
	id := v.Grant.ID
	settled, err := c.Settle(ctx, "a", id, 1)
	fmt.Fprintf(b, "settle: %+v %v\n", settled, err)
	err = c.Decide(ctx, &decider.Request{Key: "a", N: 3}, &v)
	verdict("deny", &v, err)
	err = c.Decide(ctx, &decider.Request{Key: "own", N: 1, Quota: &decider.Quota{Count: 5, Period: time.Second, Burst: 5}}, &v)
	verdict("own quota", &v, err)
	err = c.Wait(ctx, &decider.Request{Key: "b", N: 1, Limit: 2}, &v)
	verdict("wait", &v, err)
	verdicts := make([]decider.Verdict, 2)
	requests := []decider.Request{{Key: "b", N: 1}, {Key: "c", N: 4}}
	ok, err := c.Batch(ctx, requests, false, verdicts)
	fmt.Fprintf(b, "batch: %t\n", ok)
	verdict(" first", &verdicts[0], err)
	verdict(" second", &verdicts[1], err)
	ok, err = c.Descriptors(ctx, requests, true, verdicts)
	fmt.Fprintf(b, "descriptors: %t\n", ok)
	verdict(" first", &verdicts[0], err)
	l, err := c.Acquire(ctx, decider.LeaseRequest{Key: "l", N: 2})
	fmt.Fprintf(b, "acquire: %d %s %d %d %v\n", l.N, l.TTL, l.Limit, l.Inflight, err)
	_, err = c.Acquire(ctx, decider.LeaseRequest{Key: "l", N: 1, TTL: time.Second})
	fmt.Fprintf(b, "acquire: %v\n", err)
	l, err = c.Renew(ctx, "l", l.ID, time.Second)
	fmt.Fprintf(b, "renew: %d %s %v\n", l.N, l.TTL, err)
	fmt.Fprintf(b, "return: %v\n", c.Return(ctx, "l", l.ID, weir.Success))
	var got decider.LeafAnswer
	err = c.Exchange(ctx, &decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "one", Reports: []leaf.Report{{Key: "d", Used: 1, Wants: 0.5}}}}, &got)
	fmt.Fprintf(b, "exchange: %d %d %+v %v\n", got.TTLMS, got.NextMS, got.Assignments, err)
	x, err := c.Explain(ctx, "c")
	fmt.Fprintf(b, "explain: %s %t %d %s %v\n", x.Key, x.Allowed, len(x.Rules), x.Rules[0].Rule.Name, err)
	seen, err := c.Top(ctx, 2)
	fmt.Fprintf(b, "top: %d %v\n", len(seen), err)
	text, err := c.Call(ctx, "echo", []byte("text"))
	fmt.Fprintf(b, "call: %s %v\n", text, err)
	return b.String()
}

// A tee keeps what a connection carries.
type tee struct {
	net.Conn
	in, out bytes.Buffer
}

func (c *tee) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.in.Write(b[:n])
	return n, err
}

func (c *tee) Write(b []byte) (int, error) {
	c.out.Write(b)
	return c.Conn.Write(b)
}

// conversation returns what a Client gets over a connection.
func conversation(t *testing.T, conn net.Conn) string {
	t.Helper()
	dials := 0
	c, err := New(Config{URL: "http://weir", Self: Info{Node: "client", Version: "v1"}, Conns: 1, Dial: func(context.Context, string, string) (net.Conn, error) {
		if dials++; dials > 1 {
			return nil, ErrUnavailable
		}
		return conn, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	synctest.Wait()
	if s := c.State(); !s.Up {
		t.Fatalf("%+v", s)
	}
	return converse(c)
}

// releasedHandler is a Handler for conversations, and a connection to it.
func releasedHandler(t *testing.T) net.Conn {
	t.Helper()
	h, err := NewHandler(HandlerConfig{Decider: testServer(t), Self: Info{Node: "server", Version: "v1"}, Calls: map[string]func(context.Context, Info, []byte) ([]byte, error){
		"echo": func(_ context.Context, _ Info, body []byte) ([]byte, error) { return body, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, h)
}

// framesOf returns the frames that follow the head of a request or an answer.
func framesOf(t *testing.T, recorded []byte) (head []byte, all []frame) {
	t.Helper()
	head, rest, found := bytes.Cut(recorded, []byte("\r\n\r\n"))
	if !found {
		t.Fatalf("no head in %q", recorded)
	}
	for in := newFrameReader(bufio.NewReader(bytes.NewReader(rest))); ; {
		f, err := in.read()
		if err != nil {
			return append(bytes.Clone(head), "\r\n\r\n"...), all
		}
		f.payload = bytes.Clone(f.payload)
		all = append(all, f)
	}
}

// The conversations of released versions are understood: what their clients sent by the Handler, and
// what their handlers sent by the Client.
func TestReleasedPeers(t *testing.T) {
	dir := "testdata/released"
	if *record != "" {
		synctest.Test(t, func(t *testing.T) {
			conn := &tee{Conn: releasedHandler(t)}
			text := conversation(t, conn)
			for name, content := range map[string][]byte{"client": conn.out.Bytes(), "server": conn.in.Bytes(), "txt": []byte(text)} {
				if err := os.WriteFile(filepath.Join(dir, *record+"."+name), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
		return
	}
	releases, err := filepath.Glob(dir + "/*.txt")
	if err != nil || len(releases) < 2 {
		t.Fatal(releases, err)
	}
	for _, path := range releases {
		release := strings.TrimSuffix(path, ".txt")
		file := func(suffix string) []byte {
			b, err := os.ReadFile(release + suffix)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		t.Run(filepath.Base(release)+" asks", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { askAs(t, file(".client")) })
		})
		t.Run(filepath.Base(release)+" answers", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				go answerAs(t, server, file(".server"))
				if got, want := conversation(t, client), string(file(".txt")); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		})
	}
}

// askAs sends what a client sent, with ids of another server.
func askAs(t *testing.T, recorded []byte) {
	t.Helper()
	conn := releasedHandler(t)
	head, asked := framesOf(t, recorded)
	if _, err := conn.Write(head); err != nil {
		t.Fatal(err)
	}
	both := bufio.NewReader(conn)
	if _, err := http.ReadResponse(both, nil); err != nil {
		t.Fatal(err)
	}
	in, out := newFrameReader(both), newFrameWriter(conn)
	for _, f := range asked {
		if err := out.send(f.id, f.kind, f.payload); err != nil {
			t.Fatal(err)
		}
		out.flush()
		for {
			got, err := in.read()
			if err != nil {
				t.Fatalf("kind %d: %v", f.kind, err)
			}
			if got.kind == kindFailure {
				_, err := (&decoder{b: got.payload}).failure()
				if r, ok := err.(*weir.Rejection); !(ok && r.Reason == weir.OverLimit || err == decider.ErrNoGrant || err == decider.ErrNoLease) {
					t.Errorf("kind %d: %v", f.kind, err)
				}
			}
			if got.kind != kindRule && got.kind != kindWaits {
				break
			}
		}
	}
}

// answerAs sends what a handler sent, after each frame of the client what followed it.
func answerAs(t *testing.T, conn net.Conn, recorded []byte) {
	defer conn.Close()
	both := bufio.NewReader(conn)
	if _, err := http.ReadRequest(both); err != nil {
		t.Error(err)
		return
	}
	head, answers := framesOf(t, recorded)
	if _, err := conn.Write(head); err != nil {
		t.Error(err)
		return
	}
	in, out := newFrameReader(both), newFrameWriter(conn)
	for {
		if _, err := in.read(); err != nil || len(answers) == 0 {
			return
		}
		for len(answers) > 0 {
			f := answers[0]
			answers = answers[1:]
			if err := out.send(f.id, f.kind, f.payload); err != nil {
				return
			}
			if f.kind != kindRule && f.kind != kindWaits {
				break
			}
		}
		out.flush()
	}
}

// A peer whose version does not know a reason gets the one that stood for it before.
func TestReasonsOfOlderPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testServer(t)
		s.Recover()
		h, err := NewHandler(HandlerConfig{Decider: s})
		if err != nil {
			t.Fatal(err)
		}
		for of, want := range map[int]weir.Reason{0: weir.OverLimit, 1: weir.Recovering, KnowsEpochs + 1: weir.Recovering} {
			p := greetRaw(t, h, hello{Info: Info{Node: "raw", Revision: of}})
			p.send(1, kindAcquire, appendLeaseRequest(nil, &decider.LeaseRequest{Key: "l", N: 1}, 0))
			f := p.receive()
			_, err := (&decoder{b: f.payload}).failure()
			if r, ok := err.(*weir.Rejection); !ok || r.Reason != want || r.RetryAfter <= 0 {
				t.Errorf("revision %d: %v, want %s", of, err, want)
			}
		}
	})
}

// A reason of a later version is weir.Closed. The numbers of reasons are part of the protocol.
func TestReasonsOfLaterPeers(t *testing.T) {
	names := []string{"", "over_rate", "over_limit", "queue_full", "overdue", "too_late", "closed", "over_burst", "throttled", "recovering"}
	for n := range 256 {
		want := "closed"
		if n < len(names) {
			want = names[n]
		}
		if got := (&decoder{b: []byte{byte(n)}}).reason(); got.String() != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
