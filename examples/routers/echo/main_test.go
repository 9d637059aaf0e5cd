package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/examples/routers/internal/check"
	"github.com/weir-go/weir/httplimit"
)

func TestUse(t *testing.T) {
	check.Run(t, check.Router{Hello: "/hello/:name", Hook: "/hook", Recovers: true,
		New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
			m := check.Middleware(t, cfg)
			e := echo.New()
			e.Use(middleware.Recover(), limit(m))
			e.GET("/hello/:name", hello)
			e.GET("/hook", echo.WrapHandler(hook))
			return e, m
		}})
}

// An error of a handler is answered by echo while the Middleware looks on, and
// what is around both sees the status and the size of every answer.
func TestErrorsAndWhatIsAround(t *testing.T) {
	m := check.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	e := echo.New()
	var status int
	var size int64
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			status, size = c.Response().Status, c.Response().Size
			return err
		}
	}, limit(m))
	e.GET("/busy", func(echo.Context) error { return echo.NewHTTPError(http.StatusServiceUnavailable, "busy") })
	e.GET("/broken", func(echo.Context) error { return errors.New("broken") })
	e.GET("/fine", func(c echo.Context) error { return c.String(http.StatusAccepted, "fine") })
	for _, tt := range []struct {
		path   string
		status int
		body   string
		want   weir.Outcome
	}{
		{"/busy", 503, `{"message":"busy"}` + "\n", weir.Dropped},
		{"/broken", 500, `{"message":"Internal Server Error"}` + "\n", weir.Ignored},
		{"/fine", 202, "fine", weir.Success},
	} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if w.Code != tt.status || w.Body.String() != tt.body || status != tt.status || size != int64(len(tt.body)) {
			t.Errorf("%s: %d %q, and around it %d, %d bytes", tt.path, w.Code, w.Body, status, size)
		}
		check.Outcome(t, m, tt.path, tt.want)
	}
}

// What is around the Middleware may write, too, when the handler has ended.
func TestWhatIsAroundWrites(t *testing.T) {
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := next(c); err != nil {
				return err
			}
			_, err := c.Response().Write([]byte("bye\n"))
			return err
		}
	}, limit(check.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})))
	e.GET("/hello/:name", hello)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/hello/ada", nil))
	if w.Code != 200 || w.Body.String() != "hello, ada\nbye\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}
