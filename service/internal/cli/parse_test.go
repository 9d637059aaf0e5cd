package cli

import (
	"bytes"
	"testing"
)

// A value behind a flag that needs none is not read as an argument.
func TestSeparateValue(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"run-it", "--fast", "false"}, "toy run-it: --fast: its value is written --fast=false (see toy run-it --help)\n"},
		{[]string{"run", "--quiet", "true", "a"}, "toy run: --quiet: its value is written --quiet=true (see toy run --help)\n"},
		{[]string{"run", "--quiet", "--", "true"}, ""},
		{[]string{"run", "--out", "true", "false"}, ""},
		{[]string{"run-it", "--fast=false"}, ""},
	} {
		var out, log bytes.Buffer
		if toy.Run(t.Context(), tt.args, &out, &log); log.String() != tt.want {
			t.Errorf("%q: %q: want %q", tt.args, &log, tt.want)
		}
	}
}

// A variable that looks like one of a flag is not ignored in silence: it may be misspelt.
func TestStrangeVariables(t *testing.T) {
	for name, want := range map[string]string{
		"WEIR_QUIT":                 "toy run-it: warning: $WEIR_QUIT is not a variable of toy, did you mean \"WEIR_QUIET\"?\n",
		"WEIR_SOMETHING_ELSE":       "toy run-it: warning: $WEIR_SOMETHING_ELSE is not a variable of toy\n",
		"WEIR_QUIET":                "", // of another command
		"WEIR_VERSION":              "",
		"WEIR_PORT":                 "",
		"WEIR_SERVICE_HOST":         "",
		"WEIR_LEAF_PORT_80_TCP":     "",
		"WEIR_SERVICE_PORT_HTTP":    "",
		"WEIR_PORT_8080_TCP_ADDR":   "",
		"WEIRD_QUIT":                "",
		"WEIR_LEAF_SERVICE_PORT_UI": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			var out, log bytes.Buffer
			if code := toy.Run(t.Context(), []string{"run-it"}, &out, &log); code != 0 || log.String() != want {
				t.Errorf("%d, %q: want %q", code, &log, want)
			}
		})
	}
	t.Setenv("WEIR_QUIT", "1")
	var log bytes.Buffer
	if code := toy.Run(t.Context(), []string{"completion", "bash"}, new(bytes.Buffer), &log); code != 0 || log.Len() > 0 {
		t.Errorf("%d, %q: want no warning at the start of a shell", code, &log)
	}
}

// A flag that has no effect without another one is refused, unless it has its default.
func TestNeeds(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"run-it", "--pace", "2s"}, "toy run-it: --pace needs --fast (see toy run-it --help)\n"},
		{[]string{"run-it", "--pace", "1000ms"}, ""},
		{[]string{"run-it", "--pace", "2s", "--fast"}, ""},
		{[]string{"run-it", "--pace", "2s", "--fast=false"}, "toy run-it: --pace needs --fast (see toy run-it --help)\n"},
	} {
		var out, log bytes.Buffer
		if toy.Run(t.Context(), tt.args, &out, &log); log.String() != tt.want {
			t.Errorf("%q: %q: want %q", tt.args, &log, tt.want)
		}
	}
}
