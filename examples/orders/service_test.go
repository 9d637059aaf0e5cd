package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The status tells the limit what a failed query means: 503 is a sign of overload, 500 is none.
func TestFail(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
	}{
		{pgx.ErrNoRows, 404},
		{fmt.Errorf("connect: %w", &pgconn.PgError{Code: tooManyConnections}), 503},
		{&pgconn.PgError{Code: "42P01"}, 500},
		{errors.New("broken pipe"), 500},
	} {
		w := httptest.NewRecorder()
		fail(w, httptest.NewRequest("GET", "/", nil), tt.err)
		if w.Code != tt.status {
			t.Errorf("%v: %d, want %d", tt.err, w.Code, tt.status)
		}
	}
}

func TestValidate(t *testing.T) {
	c, x := config{"auto", 5, "grace", time.Second}, experiment{2.6, time.Second, 0, time.Second}
	if err := errors.Join(c.validate(), x.validate()); err != nil {
		t.Fatal(err)
	}
	for want, set := range map[string]func(*config, *experiment){
		`-limit "some"`:   func(c *config, _ *experiment) { c.limit = "some" },
		`-fixed 0`:        func(c *config, _ *experiment) { c.fixed = 0 },
		`-cancel ""`:      func(c *config, _ *experiment) { c.cancel = "" },
		`-query -1s`:      func(c *config, _ *experiment) { c.query = -time.Second },
		`-load 0`:         func(_ *config, x *experiment) { x.load = 0 },
		`-patience 0s`:    func(_ *config, x *experiment) { x.patience = 0 },
		`-warm-up -1s`:    func(_ *config, x *experiment) { x.warmUp = -time.Second },
		`-duration 100ms`: func(_ *config, x *experiment) { x.duration = 100 * time.Millisecond },
	} {
		c, x := c, x
		set(&c, &x)
		if err := errors.Join(c.validate(), x.validate()); err == nil || !strings.HasPrefix(err.Error(), want+": must be") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
