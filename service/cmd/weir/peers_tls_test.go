//go:build system

package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

// useTLS has the members serve TLS, and callers trust their authority. With mutual, members and
// callers show certificates of that authority.
func (f *peerFleet) useTLS(ca *authority, mutual bool) tlsFiles {
	f.t.Helper()
	files := newTLSFiles(f.t, ca)
	f.args = append(f.args, "--peer-ca", files.ca)
	signer := (*authority)(nil)
	if mutual {
		f.args, signer = append(f.args, files.mutual()...), ca
	} else {
		f.args = append(f.args, files.flags()...)
	}
	for i, url := range f.urls {
		f.urls[i] = strings.Replace(url, "http:", "https:", 1)
	}
	f.client.Transport = &http.Transport{TLSClientConfig: ca.config(f.t, signer)}
	return files
}

// Members ask each other over TLS, with and without certificates of their own.
func TestPeersTLS(t *testing.T) {
	t.Parallel()
	for name, mutual := range map[string]bool{"server": false, "mutual": true} {
		t.Run(name, func(t *testing.T) {
			f := newPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
			f.useTLS(newAuthority(t, "ours"), mutual)
			for i := range fleetSize {
				f.start(i)
			}
			f.untilStatuses("live live live", 0, 1, 2)
			key, before := f.ownedBy(1, "once"), f.forwarded(0)
			for i := range 33 {
				if got := f.take(0, "/rate/"+key); got.ok != (i < 30) || got.step != "exact" {
					t.Errorf("request %d: %+v", i, got)
				}
			}
			if n := f.forwarded(0) - before; n != 33 {
				t.Errorf("%d of 33 requests were forwarded", n)
			}
		})
	}
}

// untilRefused waits until a member has logged why it cannot use another.
func (f *peerFleet) untilRefused(i, other int, why string) {
	f.t.Helper()
	redistest.Until(f.t, "a refusal", func() error {
		if text := fmt.Sprintf("msg=\"a peer cannot be used\" peer=%s error=\"%s", f.urls[other], why); f.processes[i].logged(text) == 0 {
			return fmt.Errorf("instance %d has not logged %s", i, text)
		}
		return nil
	})
}

// A member without a certificate of the authority is refused as a server and as a client, and refuses itself.
func TestPeersTLSOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	f := newPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
	ours, other := newAuthority(t, "ours"), newAuthority(t, "another")
	f.useTLS(ours, true)
	stranger := newTLSFiles(t, other)
	f.own[2] = []string{"--tls-cert", stranger.cert, "--tls-key", stranger.key}
	for i := range fleetSize {
		f.start(i)
	}
	f.untilRefused(0, 2, "tls: failed to verify certificate: x509: certificate signed by unknown authority")
	f.untilRefused(2, 0, "remote error: tls: unknown certificate authority")
	f.untilRefused(2, 2, "tls: failed to verify certificate: x509: certificate signed by unknown authority")
	f.untilStatuses("live live dead", 0, 1)
	f.untilStatuses("cut cut cut, no quorum", 2) // it does not trust itself either
	strange := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ours.config(t, nil).RootCAs}}}
	if a, err := tryAsk(strange, "GET", f.urls[0]+"/-/peer"); err == nil {
		t.Errorf("without a certificate: %v", a)
	}
}
