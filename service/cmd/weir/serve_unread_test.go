package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/server"
)

// A caller with HTTP/2 that takes no answers, though its connection lives, holds up
// neither others nor the end, for longer than --client-timeout.
func TestServeUnreadAnswers(t *testing.T) {
	state := file(t, "state", "")
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	s := serving(t, "--client-timeout", "300ms", "--grace", "20s", "--state", state)
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	for range 5 {
		resp, err := (&http.Client{Transport: transport}).Post(s.public+"/rate/x", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
	}
	s.end() // fails if --grace was too short
	if _, err := os.Stat(state); err != nil {
		t.Error(err)
	}
}

// SIGHUP is a reload, also where there are no files: it ends nothing.
func TestServeHangupWithoutFiles(t *testing.T) {
	s := serving(t)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.until("msg=reloaded")
	if a := s.post("/rate/x"); a.status != 200 {
		t.Errorf("%v", a)
	}
}

// What Kubernetes tells pods of a Service called weir is no flag.
func TestServeBesideAServiceOfItsName(t *testing.T) {
	t.Setenv("WEIR_PORT", "tcp://10.0.0.1:80")
	t.Setenv("WEIR_SERVICE_HOST", "10.0.0.1")
	s := serving(t)
	if a := s.post("/rate/x"); a.status != 200 {
		t.Errorf("%v", a)
	}
}

// The state is kept while the server runs, too.
func TestServeKeepsItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.New(server.Config{})
		fatal(t, err)
		path := filepath.Join(t.TempDir(), "state")
		d := &daemon{cmd: &serveCmd{State: path}, log: slog.New(slog.DiscardHandler), server: srv}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.saveEvery(ctx, time.Minute)
		time.Sleep(time.Minute - time.Nanosecond)
		if _, err := os.Stat(path); err == nil {
			t.Error("it is kept before its time")
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		_, err = os.Stat(path)
		fatal(t, err)
	})
}

// What strangers can make a server say is said ten times a second at most.
func TestLogOfWhatPeersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := newServer(http.NotFoundHandler(), slog.New(slog.NewTextHandler(&out, nil))).ErrorLog
		for range 100 {
			for range 10 {
				log.Print("http: TLS handshake error")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := strings.Count(out.String(), "\n"); n != 19 { // ten at once, and those of 990 ms
			t.Errorf("%d lines of 1000", n)
		}
	})
}

// Where there may be few files, operators and the state have theirs.
func TestServeFewFiles(t *testing.T) {
	for files, want := range map[int]int{1 << 20: 1<<20 - otherFiles, 1024: 1024 - otherFiles, 100: 50} {
		if got := roomFor(files); got != want {
			t.Errorf("of %d files, %d are for callers: want %d", files, got, want)
		}
	}
	if maxFiles() < 100 {
		t.Errorf("%d files", maxFiles())
	}
}
