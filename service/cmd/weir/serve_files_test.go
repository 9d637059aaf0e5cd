package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A mistake in one file does not keep what another file revokes: tokens, the authority
// of clients and rules each come into force alone.
func TestServeFilesApart(t *testing.T) {
	ca, next := newAuthority(t, "ours"), newAuthority(t, "the next")
	files := newTLSFiles(t, ca)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { fatal(t, os.WriteFile(path(name), []byte(text), 0o600)) }
	write("tokens.yaml", `tokens: [{name: old, token: the secret that leaks}, {name: new, token: the secret that stays}]`)
	write("rules.yaml", `rules: [{name: one, glob: "*", rate: 100/h}]`)
	s := serving(t, append(files.mutual(), "--rules", path("rules.yaml"), "--tokens", path("tokens.yaml"), "--watch-interval", "1h")...)
	client := ca.client(t, ca, false)
	status := func(secret string) int {
		t.Helper()
		return ask(t, client, "POST", s.public+"/rate/a", "Authorization", "Bearer "+secret).status
	}
	if got := status("the secret that leaks"); got != 200 {
		t.Fatalf("%d: want 200", got)
	}

	// A typo in the rules, and a token that is removed.
	write("rules.yaml", `rules: [{name: one, glob: "*", rate: 100}]`)
	write("tokens.yaml", `tokens: [{name: new, token: the secret that stays}]`)
	if a := s.reload(); a.status != 422 || !strings.Contains(a.body, "rules.yaml:1:") {
		t.Errorf("%v: want 422, and the mistake", a)
	}
	if got := status("the secret that leaks"); got != 401 {
		t.Errorf("the removed token: %d: want 401", got)
	}
	if got := status("the secret that stays"); got != 200 {
		t.Errorf("the other token: %d: want 200", got)
	}

	// A typo in the tokens, and rules that change.
	write("tokens.yaml", `tokens: [{name: new}]`)
	write("rules.yaml", `rules: [{name: one, glob: "*", rate: 200/h}]`)
	before := s.status().Config.Hash
	if a := s.reload(); a.status != 422 || !strings.Contains(a.body, "tokens.yaml:1:") || s.status().Config.Hash == before {
		t.Errorf("%v: want 422, the mistake, and the new rules", a)
	}
	if got := status("the secret that stays"); got != 200 {
		t.Errorf("a token of the last good file: %d: want 200", got)
	}

	// Half of a certificate, and an authority that is replaced.
	write("tokens.yaml", `tokens: [{name: new, token: the secret that stays}]`)
	fatal(t, os.WriteFile(files.key, []byte("half of a key"), 0o600))
	files.trust(next)
	if a := s.reload(); a.status != 422 || !strings.Contains(a.body, "--tls-key") {
		t.Errorf("%v: want 422, and the mistake", a)
	}
	if a, err := tryAsk(client, "POST", s.public+"/rate/a"); err == nil {
		t.Errorf("a certificate of the old authority: %v: want it refused", a)
	}
	client = ca.client(t, next, false)
	if got := status("the secret that stays"); got != 200 {
		t.Errorf("a certificate of the new authority: %d: want 200", got)
	}
	s.end()
}

// A session of TLS that a client resumes does not outlive the authority of its
// certificate.
func TestServeResumedSession(t *testing.T) {
	ca, next := newAuthority(t, "ours"), newAuthority(t, "the next")
	files := newTLSFiles(t, ca)
	s := serving(t, append(files.mutual(), "--watch-interval", "1h")...)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := ca.client(t, ca, false)
		cfg := client.Transport.(*http.Transport).TLSClientConfig
		cfg.ClientSessionCache, cfg.MaxVersion = tls.NewLRUClientSessionCache(1), version
		resumed := func() (bool, error) {
			resp, err := client.Get(s.public + "/healthz")
			if err != nil {
				return false, err
			}
			resp.Body.Close()
			return resp.TLS.DidResume, nil
		}
		for _, want := range []bool{false, true} {
			if got, err := resumed(); err != nil || got != want {
				t.Fatalf("%x: resumed %t, %v: want %t", version, got, err, want)
			}
		}
		files.trust(next)
		s.reload()
		if _, err := resumed(); err == nil {
			t.Errorf("%x: a certificate of the old authority is accepted", version)
		}
		files.trust(ca)
		s.reload()
	}
	s.end()
}

// While the certificate is replaced under load, also by halves, every handshake succeeds
// with one that was whole.
func TestServeCertificateStorm(t *testing.T) {
	t.Parallel()
	const rotations, clients, requests = 40, 4, 60
	ca := newAuthority(t, "ours")
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	var s *served
	rotate := func(serial int64, step func()) {
		cert, key := ca.sign(t, serial)
		for name, text := range map[string][]byte{certFile: cert, keyFile: key} {
			fatal(t, os.WriteFile(name, text, 0o600))
			step() // with files that do not belong together, or are half written
		}
	}
	rotate(1, func() {})
	s = serving(t, "--tls-cert", certFile, "--tls-key", keyFile, "--watch-interval", "1h", "--max-requests", "1000000")
	var wg sync.WaitGroup
	for c := range clients {
		tr := &http.Transport{TLSClientConfig: ca.config(t, nil), DisableKeepAlives: true, ForceAttemptHTTP2: c%2 == 0}
		wg.Go(func() {
			for range requests {
				if a, err := tryAsk(&http.Client{Transport: tr}, "POST", s.public+"/rate/a"); err != nil || a.status != 200 {
					t.Errorf("client %d: %v, %v", c, a, err)
					return
				}
			}
		})
	}
	for i := range rotations {
		rotate(int64(i+2), func() { hangUp(t) })
	}
	wg.Wait()
	if a := s.reload(); a.status != 200 {
		t.Errorf("%v: want the last certificate", a)
	}
	resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: ca.config(t, nil)}}).Get(s.public + "/healthz")
	fatal(t, err)
	resp.Body.Close()
	if n := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); n != rotations+1 {
		t.Errorf("certificate %d: want the last, %d", n, rotations+1)
	}
	s.end()
}

// A storm of SIGHUP under load ends with the last content, and denies and allows what
// the rules say throughout: a rule that stays keeps its counts.
func TestServeHangupStorm(t *testing.T) {
	const hangups = 300
	rules := file(t, "rules.yaml", `rules: [{name: one, glob: "*", rate: 100/h}]`)
	s := serving(t, "--rules", rules, "--watch-interval", "1h")
	allowed := make(chan int)
	go func() {
		n := 0
		for range 400 {
			if a, err := tryAsk(http.DefaultClient, "POST", s.public+"/rate/a"); err == nil && a.status == 200 {
				n++
			} else if err != nil || a.status != 429 {
				t.Errorf("%v, %v", a, err)
			}
		}
		allowed <- n
	}()
	for i := range hangups {
		fatal(t, os.WriteFile(rules+".new", fmt.Appendf(nil, "# %d\n"+`rules: [{name: extra %[1]d, key: b, rate: 1/s}, {name: one, glob: "*", rate: 100/h}]`, i), 0o600))
		fatal(t, os.Rename(rules+".new", rules))
		hangUp(t)
	}
	if n := <-allowed; n != 100 {
		t.Errorf("%d allowed: want 100 an hour", n)
	}
	if a := s.reload(); a.status != 200 || !strings.Contains(ask(t, http.DefaultClient, "GET", s.admin+"/-/status").body, fmt.Sprintf("extra %d", hangups-1)) {
		t.Errorf("%v: want the last rules", a)
	}
	s.end()
}
