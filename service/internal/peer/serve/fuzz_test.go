package serve

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
	"github.com/weir-go/weir/service/internal/peer/wire"
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

func frameOf(id uint64, k wire.Kind, payload []byte) []byte {
	b := append(binary.AppendUvarint(make([]byte, 4), id), byte(k))
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// requests has a frame of each kind of request.
func requests() (all [][]byte) {
	req := decider.Request{Key: "own", N: 1, Limit: 2, Queue: 3, OwnQueue: true, WantID: true, Quota: &decider.Quota{Count: 1, Period: time.Second}}
	plain := decider.Request{Key: "a", N: 1}
	x := &decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "l", Held: 1, Reports: []leaf.Report{{Key: "a", Used: 1, Wants: 1.5}}}}
	exchange, _ := wire.AppendExchange(nil, x, 0)
	batched, _ := wire.AppendBatch(nil, []decider.Request{req, plain}, true, 0)
	timeout := wire.AppendSpan(nil, time.Millisecond)
	for k, payload := range map[wire.Kind][]byte{
		wire.KindDecide: wire.AppendRequest(nil, &req, 0), wire.KindWait: wire.AppendRequest(timeout, &plain, wire.WantsWaits), wire.KindBatch: batched, wire.KindDescriptors: batched,
		wire.KindSettle: wire.AppendSettle(nil, "a", "b", 1), wire.KindAcquire: wire.AppendLeaseRequest(nil, &decider.LeaseRequest{Key: "a", N: 1, Wait: true}, 1000),
		wire.KindRenew: wire.AppendSpan(wire.AppendText(wire.AppendText(nil, "a"), "b"), time.Second), wire.KindReturn: wire.AppendReturn(nil, "a", "b", 1), wire.KindExchange: exchange,
		wire.KindExplain: wire.AppendText(timeout, "a"), wire.KindTop: binary.AppendUvarint(timeout, 3), wire.KindCall: wire.AppendText(timeout, "c"), wire.KindCancel: nil, wire.KindPing: []byte("12345678"),
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
	f.Add(binary.BigEndian.AppendUint32(nil, wire.MaxFrame))
	s := testServer(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := New(Config{Decider: s, Now: s.Now})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		conn := script{in: bytes.NewReader(in)}
		one := newSession(h, conn, wire.NewReader(bufio.NewReaderSize(conn, wire.ReadSize)), wire.NewWriter(conn), wire.Hello{SilenceMS: 1000})
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
