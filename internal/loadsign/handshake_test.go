package loadsign_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/internal/loadsign"
)

// A handshake that either side rejects says that there is no way to the service.
func TestHandshake(t *testing.T) {
	for name, configure := range map[string]func(server, client *tls.Config){
		"the version is too old": func(server, client *tls.Config) {
			server.MinVersion, client.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
		},
		"no common protocol": func(server, client *tls.Config) {
			server.NextProtos, client.NextProtos = []string{"other"}, []string{"h2"}
		},
		"an unknown authority": func(_, client *tls.Config) { client.InsecureSkipVerify, client.RootCAs = false, x509.NewCertPool() },
	} {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = new(tls.Config)
		client := &tls.Config{InsecureSkipVerify: true}
		configure(s.TLS, client)
		s.StartTLS()
		resp, err := (&http.Transport{TLSClientConfig: client}).RoundTrip(httptest.NewRequest("GET", s.URL, nil))
		if err == nil {
			resp.Body.Close()
		}
		if got := loadsign.OfError(err); got != loadsign.Unreachable {
			t.Errorf("%s: %v: %v: want %v", name, err, got, loadsign.Unreachable)
		}
		s.Close()
	}
}
