package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
)

func TestTopCommand(t *testing.T) {
	t.Parallel()
	s, err := server.New(server.Config{})
	fatal(t, err)
	api := adminapi.New(adminapi.Config{Server: s})
	defer api.Close()
	srv := httptest.NewServer(api)
	defer srv.Close()
	for _, args := range []string{"--once --admin " + srv.URL + "/", "--admin " + strings.TrimPrefix(srv.URL, "http://"), srv.URL, "--json " + srv.URL} {
		if code, stdout, stderr := weir(t, append([]string{"top"}, strings.Fields(args)...)...); code != 0 || stderr != "" || !strings.Contains(stdout, srv.URL) {
			t.Errorf("%s: %d, %q, %q", args, code, stdout, stderr)
		}
	}
	for args, want := range map[string]string{
		"--admin /x":     "/x: must be an http or https URL of --admin",
		"ftp://a":        "ftp://a: must be an http or https URL of --admin",
		"--interval 1ms": "--interval=1ms: must be >= 100ms",
		"--by name":      "--by",
	} {
		if code, _, stderr := weir(t, append([]string{"top"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %q: want %q", args, code, stderr, want)
		}
	}
}

// The same command shows weir proxy, with a token if it asks for one.
func TestTopOfProxy(t *testing.T) {
	s := proxying(t, "--origin", nowhere, "--admin-tokens", file(t, "tokens.yaml", operatorTokens))
	if code, _, stderr := weir(t, "top", s.admin); code != 1 || !strings.Contains(stderr, "give a token that allows admin, as --token or $WEIR_TOKEN") {
		t.Errorf("without a token: %d, %q", code, stderr)
	}
	if code, stdout, stderr := weir(t, "top", s.admin, "--token", "secret-of-the-operator"); code != 0 || stderr != "" || !strings.HasPrefix(stdout, "weir proxy  "+s.admin+"\n") {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}
