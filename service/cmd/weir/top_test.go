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
	for _, args := range []string{"--once --admin " + srv.URL + "/", "--admin " + strings.TrimPrefix(srv.URL, "http://")} {
		if code, stdout, stderr := weir(t, append([]string{"top"}, strings.Fields(args)...)...); code != 0 || stderr != "" || !strings.Contains(stdout, srv.URL) {
			t.Errorf("%s: %d, %q, %q", args, code, stdout, stderr)
		}
	}
	for args, want := range map[string]string{
		"--admin /x":      "--admin=/x: must be an http or https URL",
		"--admin ftp://a": "--admin=ftp://a: must be an http or https URL",
		"--interval 1ms":  "--interval=1ms: must be >= 100ms",
		"--by name":       "--by",
	} {
		if code, _, stderr := weir(t, append([]string{"top"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %q: want %q", args, code, stderr, want)
		}
	}
}
