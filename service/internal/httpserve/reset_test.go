package httpserve

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/internal/pipenet"
)

// The server keeps nothing of streams that the client has reset, although their handlers set deadlines after that.
func TestResetStreamsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			stream := http.NewResponseController(w)
			_, _ = stream.SetReadDeadline(time.Now().Add(time.Hour)), stream.SetWriteDeadline(time.Now().Add(time.Hour))
		}), slog.New(slog.DiscardHandler))
		SpeakHTTP2(srv, time.Minute)
		ln := pipenet.Listen()
		go func() { _ = srv.Serve(ln) }()
		defer srv.Close()
		nc, err := ln.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, nc) }()
		last, f := uint32(1), http2.NewFramer(nc, nil)
		resets := func(n int) uint64 {
			for range n {
				block := []byte{0x83, 0x86, 0x84, 0x41, 0x01, 'a'} // POST http://a/
				err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: last, BlockFragment: block, EndHeaders: true})
				synctest.Wait()
				if err := errors.Join(err, f.WriteRSTStream(last, http2.ErrCodeCancel)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				last += 2
			}
			return objects()
		}
		if _, err := io.WriteString(nc, http2.ClientPreface); errors.Join(err, f.WriteSettings()) != nil {
			t.Fatal(err)
		}
		before := resets(100)
		if after := resets(2000); after > before+2000 {
			t.Errorf("%d objects more than before 2,000 streams", after-before)
		}
	})
}

// objects returns the number of objects in the heap.
func objects() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapObjects
}
