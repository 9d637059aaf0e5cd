package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

// The listener of operators of the proxy can have TLS and need a token; probes need none. A token that is removed
// from the file is refused from then on, and a file with a mistake keeps its last good content.
func TestProxyAdminAuth(t *testing.T) {
	ca := newAuthority(t, "ours")
	files := newTLSFiles(t, ca)
	tokens := file(t, "tokens.yaml", operatorTokens)
	s := proxying(t, append(files.flags(), "--origin", nowhere, "--tls-client-ca", files.ca, "--admin-tokens", tokens, "--admin-tls", "--pprof")...)
	if !strings.HasPrefix(s.admin, "https://") {
		t.Fatalf("%s: want https", s.admin)
	}
	client := ca.client(t, nil, false) // without a certificate: that is for clients
	asks := func(method, path, authorization string, want int) answered {
		t.Helper()
		a := ask(t, client, method, s.admin+path, "Authorization", authorization)
		if a.status != want {
			t.Errorf("%s %s as %q: %d %s: want %d", method, path, authorization, a.status, a.body, want)
		}
		return a
	}
	const operator = "Bearer secret-of-the-operator"
	asks("GET", "/-/ready", "", 200)
	asks("GET", "/-/health", "", 200)
	if a := asks("GET", "/", "", 401); a.header.Get("Www-Authenticate") == "" {
		t.Errorf("no challenge: %v", a.header)
	}
	for _, path := range []string{"/page.js", "/-/status", "/-/live", "/-/set", "/-/explain?url=/", "/metrics", "/debug/pprof/cmdline", "//-/ready", "/-/ready/"} {
		asks("GET", path, "", 401)
	}
	asks("POST", "/-/set?limit=1", "", 401)
	asks("POST", "/-/reload", "", 401)
	asks("GET", "/metrics", "Bearer nobody", 401)
	asks("GET", "/metrics", "Bearer secret-of-the-shop", 403)
	asks("GET", "/metrics", operator, 200)
	const scraper = "Bearer secret-of-the-scraper"
	asks("GET", "/metrics", scraper, 200)
	for _, path := range []string{"/", "/-/status", "/-/set", "/debug/pprof/cmdline"} {
		asks("GET", path, scraper, 403)
	}
	asks("POST", "/-/set?limit=1", scraper, 403)
	asks("POST", "/-/reload", scraper, 403)
	asks("GET", "/debug/pprof/cmdline", operator, 200)
	asks("GET", "/", "Basic YW55OnNlY3JldC1vZi10aGUtb3BlcmF0b3I=", 200)
	if a := asks("POST", "/-/set?limit=7", operator, 200); !strings.Contains(a.body, `"limit": 7,`) {
		t.Errorf("%s", a.body)
	}
	s.until(`msg="request of an operator" request="POST /-/set?limit=7" status=200 token=operator from=127.0.0.1:`)

	good := func(want string) {
		t.Helper()
		if a := asks("GET", "/metrics", operator, 200); !strings.Contains(a.body, "\nweir_proxy_access_last_reload_successful "+want+"\n") {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	good("1")
	fatal(t, os.WriteFile(tokens, []byte("tokens: [{name: operator"), 0o600))
	s.until("reload of certificates and tokens failed")
	good("0")
	files.renew(ca, 5) // the certificate is loaded beside the mistake
	redistest.Until(t, "the new certificate", func() error {
		resp, err := client.Get(s.admin + "/-/health")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if n := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); n != 5 {
			return fmt.Errorf("certificate %d", n)
		}
		return nil
	})
	fatal(t, os.WriteFile(tokens, []byte(strings.ReplaceAll(operatorTokens, "secret-of-the-operator", "another-of-the-operator")), 0o600))
	s.until("certificates and tokens reloaded")
	asks("GET", "/metrics", operator, 401)
	asks("GET", "/metrics", "Bearer another-of-the-operator", 200)
	s.end()
}

// Without tokens, every operator may use the listener; a Prometheus with a token changes nothing.
func TestProxyAdminWithoutAuth(t *testing.T) {
	s := proxying(t, "--origin", nowhere)
	if a := ask(t, http.DefaultClient, "GET", s.admin+"/metrics", "Authorization", "Bearer x"); a.status != 200 || strings.Contains(a.body, "weir_proxy_access_last_reload") {
		t.Errorf("%d: want metrics, and none of files that are not there", a.status)
	}
	s.end()
}
