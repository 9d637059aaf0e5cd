//go:build unix

package main

import (
	"net/http"
	"os"
	"syscall"
	"testing"
)

// An HTTP/2 client that does not read its answers delays neither other clients nor
// the end by more than --client-timeout.
func TestServeUnreadAnswers(t *testing.T) {
	state := file(t, "state", "")
	fatal(t, os.Remove(state))
	s := serving(t, "--client-timeout", "300ms", "--grace", "20s", "--state", state)
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	for range 5 {
		resp, err := (&http.Client{Transport: transport}).Post(s.public+"/rate/x", "", nil)
		fatal(t, err)
		t.Cleanup(func() { resp.Body.Close() })
	}
	s.end() // fails if --grace was too short
	if _, err := os.Stat(state); err != nil {
		t.Error(err)
	}
}

// SIGHUP is a reload, also without files: it does not end the process.
func TestServeHangupWithoutFiles(t *testing.T) {
	s := serving(t)
	fatal(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	s.until("msg=reloaded")
	if a := s.post("/rate/x"); a.status != 200 {
		t.Errorf("%v", a)
	}
}

// The variables that Kubernetes sets for a Service named weir are not flags.
func TestServeBesideAServiceOfItsName(t *testing.T) {
	t.Setenv("WEIR_PORT", "tcp://10.0.0.1:80")
	t.Setenv("WEIR_SERVICE_HOST", "10.0.0.1")
	s := serving(t)
	if a := s.post("/rate/x"); a.status != 200 {
		t.Errorf("%v", a)
	}
}
