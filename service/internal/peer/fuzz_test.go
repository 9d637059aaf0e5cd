package peer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A script is a connection on which bytes come, and which takes all that is sent.
type script struct {
	net.Conn
	in io.Reader
}

func (s script) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s script) Write(b []byte) (int, error) { return len(b), nil }
func (s script) Close() error                { return nil }

func frameOf(id uint64, k kind, payload []byte) []byte {
	b := append(binary.AppendUvarint(make([]byte, lengthSize), id), byte(k))
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-lengthSize))
	return b
}

// requests has a frame of each kind of request.
func requests() (all [][]byte) {
	req := decider.Request{Key: "own", N: 1, Limit: 2, Queue: 3, OwnQueue: true, WantID: true, Quota: &decider.Quota{Count: 1, Period: time.Second}}
	plain := decider.Request{Key: "a", N: 1}
	x := &decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "l", Held: 1, Reports: []leaf.Report{{Key: "a", Used: 1, Wants: 1.5}}}}
	exchange, _ := appendExchange(nil, x, 0)
	batch := call{kind: kindBatch, reqs: []decider.Request{req, plain}, all: true}
	batched, _ := batch.append(nil)
	timeout := appendSpan(nil, time.Millisecond)
	for k, payload := range map[kind][]byte{
		kindDecide: appendRequest(nil, &req, 0), kindWait: appendRequest(timeout, &plain, wantsWaits), kindBatch: batched, kindDescriptors: batched,
		kindSettle: appendSettle(nil, "a", "b", 1), kindAcquire: appendLeaseRequest(nil, &decider.LeaseRequest{Key: "a", N: 1, Wait: true}, 1000),
		kindRenew: appendSpan(appendText(appendText(nil, "a"), "b"), time.Second), kindReturn: appendReturn(nil, "a", "b", 1), kindExchange: exchange,
		kindExplain: appendText(timeout, "a"), kindTop: binary.AppendUvarint(timeout, 3), kindCall: appendText(timeout, "c"), kindCancel: nil, kindPing: []byte("12345678"),
	} {
		all = append(all, frameOf(uint64(k), k, payload))
	}
	return all
}

// FuzzSession sends any bytes to a Handler.
func FuzzSession(f *testing.F) {
	for _, r := range requests() {
		f.Add(r)
	}
	f.Add(bytes.Join(requests(), nil))
	f.Add(binary.BigEndian.AppendUint32(nil, MaxFrame))
	s := testServer(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := NewHandler(HandlerConfig{Decider: s, Now: s.Now})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		conn := script{in: bytes.NewReader(in)}
		one := newSession(h, conn, newFrameReader(bufio.NewReaderSize(conn, readSize)), newFrameWriter(conn), hello{SilenceMS: 1000})
		one.run()
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20+uint64(1000*len(in)) {
			t.Errorf("%d bytes were allocated for %d", used, len(in))
		}
		if h.waiting.Load() != 0 || h.working.Load() != 0 || s.Waiting() != 0 {
			t.Errorf("%d wait, %d work, %d wait at the server", h.waiting.Load(), h.working.Load(), s.Waiting())
		}
	})
}

// FuzzLink sends any bytes to a Client that has made requests.
func FuzzLink(f *testing.F) {
	s := testServer(f)
	h, err := NewHandler(HandlerConfig{Decider: s, Now: s.Now})
	if err != nil {
		f.Fatal(err)
	}
	for i, r := range requests() { // the answers of a server
		if k := kind(r[5]); k == kindCall {
			continue
		}
		r[4] = byte(i) % 8
		var out bytes.Buffer
		conn := recorder{script{in: bytes.NewReader(r)}, &out}
		newSession(h, conn, newFrameReader(bufio.NewReaderSize(conn, readSize)), newFrameWriter(conn), hello{SilenceMS: 1000}).run()
		f.Add(out.Bytes(), byte(kind(r[5])))
	}
	f.Fuzz(func(t *testing.T, in []byte, k byte) {
		c := &Client{cfg: Config{MaxCalls: 100, MaxBytes: 1 << 20}, epoch: time.Now()}
		conn := script{in: bytes.NewReader(in)}
		l := newLink(c, conn, newFrameReader(bufio.NewReaderSize(conn, readSize)), newFrameWriter(conn))
		var calls []*call
		for i := range 8 {
			one := c.pool.get(kind(k))
			one.req, one.verdict = &decider.Request{Key: "a"}, new(decider.Verdict)
			one.reqs, one.verdicts = make([]decider.Request, i), make([]decider.Verdict, i)
			if err := l.enter(one); err != nil {
				t.Fatal(err)
			}
			if calls = append(calls, one); i%2 == 1 {
				l.abandon(one)
			}
		}
		l.end(l.read())
		for i, one := range calls {
			if i%2 == 1 {
				continue
			}
			for <-one.events != done {
			}
			if x := (&decider.LeafExchange{}); one.err == nil && kind(k) == kindExchange {
				(&decoder{b: one.answer}).leafAnswer(x, new(decider.LeafAnswer))
			} else if one.err == nil {
				_, _ = readExplanation(one.answer)
				_, _ = readSeen(one.answer)
				(&decoder{b: one.answer}).lease()
			}
		}
		if l.inflight != 0 {
			t.Errorf("%d calls are in flight", l.inflight)
		}
	})
}

// A recorder keeps what is sent.
type recorder struct {
	script
	out *bytes.Buffer
}

func (r recorder) Write(b []byte) (int, error) { return r.out.Write(b) }

// FuzzHandshake sends any bytes to both sides of a handshake.
func FuzzHandshake(f *testing.F) {
	secret := []byte("a secret of the whole fleet")
	text := []byte(`{"node":"n","nonce":"MDEyMzQ1Njc4OWFiY2RlZg==","secret":true}`)
	f.Add(append(frameOf(0, kindHello, text), frameOf(0, kindProof, make([]byte, 32))...))
	f.Add(frameOf(0, kindRefuse, []byte{1, 0}))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, greet := range []func(*handshake, hello) (hello, error){(*handshake).greetClient, (*handshake).greetServer} {
			conn := script{in: bytes.NewReader(in)}
			s := &handshake{in: newFrameReader(bufio.NewReader(conn)), out: newFrameWriter(conn), secret: secret}
			s.in.most = maxHello
			if _, err := greet(s, newHello(Info{}, secret)); err == nil {
				t.Error("a peer without the secret was accepted")
			}
		}
	})
}
