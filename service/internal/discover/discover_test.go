package discover

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/ring/census"
)

func TestParse(t *testing.T) {
	l, err := Parse([]string{"http://B:8080/", " http://a", "https://a", "http://[::1]:9"}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	l.Watch(t.Context(), func(all []census.Member) {
		for _, m := range all {
			got = append(got, m.Name)
		}
	}, nil)
	if want := []string{"http://[::1]:9", "http://a:80", "http://b:8080", "https://a:443"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for text, want := range map[string]string{
		"http://b:8080,http://B:8080/": `"http://B:8080/" is listed twice`, "http://a,http://a:80": `"http://a:80" is listed twice`,
		"dns+http://b":   `"dns+http://b" has no port: give that of --listen at the members, such as dns+http://b:8080`,
		"kubernetes://b": `"kubernetes://b" has no port`,
	} {
		if _, err := Parse(strings.Split(text, ","), Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, bad := range []string{"", "b:8080", "http://", "http://:80", "http://b/path", "http://u@b", "ftp://b", "dns+ftp://b", "http://b?x", "kubernetes://b:80", "http://b:x"} {
		if _, err := Parse([]string{bad}, Config{}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Addresses of a name come and go. A name that cannot be looked up keeps its addresses.
func TestDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[time.Duration]string{0: "", 5 * time.Second: "10.0.0.1 10.0.0.2", 10 * time.Second: "10.0.0.2 10.0.0.1", 15 * time.Second: "", 20 * time.Second: "10.0.0.2 fd00::1"}
		start := time.Now()
		l, err := Parse([]string{"dns+http://weir.example:8080", "http://fixed:1"}, Config{LookupNetIP: func(_ context.Context, _, host string) (all []netip.Addr, err error) {
			text := answers[time.Since(start)]
			if text == "" || host != "weir.example" {
				return nil, errors.New("no such host")
			}
			for _, a := range strings.Fields(text) {
				all = append(all, netip.MustParseAddr(a))
			}
			return all, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 22*time.Second)
		defer cancel()
		var got []string
		failures := 0
		l.Watch(ctx, func(all []census.Member) {
			text := time.Since(start).String()
			for _, m := range all {
				text += " " + m.URL
			}
			got = append(got, text)
		}, func(source string, err error) {
			if failures++; source != "dns+http://weir.example:8080" {
				t.Error(source, err)
			}
		})
		want := []string{"0s http://fixed:1", "5s http://10.0.0.1:8080 http://10.0.0.2:8080 http://fixed:1", "20s http://10.0.0.2:8080 http://[fd00::1]:8080 http://fixed:1"}
		if !slices.Equal(got, want) || failures != 2 {
			t.Errorf("%q, %d failures, want %q", got, failures, want)
		}
	})
}

const slicesOfThree = `{"kind":"EndpointSliceList","items":[
 {"addressType":"IPv4","endpoints":[
  {"addresses":["10.0.0.1"],"conditions":{"ready":true,"serving":true,"terminating":false},"targetRef":{"kind":"Pod","name":"weir-0"}},
  {"addresses":["10.0.0.2"],"conditions":{"ready":false},"targetRef":{"kind":"Pod","name":"weir-1"}},
  {"addresses":["10.0.0.3"],"conditions":{"ready":false,"serving":true,"terminating":true},"targetRef":{"kind":"Pod","name":"weir-2"}}]},
 {"addressType":"IPv6","endpoints":[
  {"addresses":["fd00::1"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"weir-0"}},
  {"addresses":["fd00::9"],"conditions":{}}]}]}`

func TestKubernetes(t *testing.T) {
	status, body := http.StatusOK, slicesOfThree
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/prod/endpointslices" || r.URL.Query().Get("labelSelector") != "kubernetes.io/service-name=weir" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer api.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"token": "secret\n", "namespace": "prod", "ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Parse([]string{"kubernetes+https://weir:8080"}, Config{Account: dir, API: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	members, err := l.sources[0].members(t.Context())
	want := []census.Member{
		{Name: "weir-0", URL: "https://10.0.0.1:8080", ServerName: "weir.prod.svc"}, {Name: "weir-1", URL: "https://10.0.0.2:8080", ServerName: "weir.prod.svc"},
		{Name: "https://[fd00::9]:8080", URL: "https://[fd00::9]:8080", ServerName: "weir.prod.svc"},
	}
	if err != nil || !slices.Equal(members, want) {
		t.Errorf("%+v, %v", members, err)
	}
	status, body = http.StatusForbidden, "not allowed"
	if _, err := l.sources[0].members(t.Context()); err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), body) {
		t.Error(err)
	}
	status, body = http.StatusOK, "{"
	if _, err := l.sources[0].members(t.Context()); err == nil {
		t.Error("an answer that is no JSON")
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.sources[0].members(t.Context()); err == nil || !strings.Contains(err.Error(), "service account") {
		t.Error(err)
	}
	for _, bad := range []string{"kubernetes://weir", "kubernetes://weir:1"} {
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		if _, err := Parse([]string{bad}, Config{Account: dir}); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
