package weirecho

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/routercheck"
)

func TestRouters(t *testing.T) {
	for name, router := range map[string]func(e *echo.Echo, mw echo.MiddlewareFunc) *echo.Group{
		"Use": func(e *echo.Echo, mw echo.MiddlewareFunc) *echo.Group {
			e.Use(mw)
			return e.Group("")
		},
		"groups": func(e *echo.Echo, mw echo.MiddlewareFunc) *echo.Group { return e.Group("", mw).Group("") },
		"in front of a copy of the request": func(e *echo.Echo, mw echo.MiddlewareFunc) *echo.Group {
			return e.Group("", mw, copies, middleware.ContextTimeout(time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			routercheck.Run(t, routercheck.Router{Hello: "GET /hello/:name", Hook: "GET /hook", Recovers: true,
				New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
					m := routercheck.Middleware(t, cfg)
					e := newEcho()
					e.Use(middleware.Recover())
					group := router(e, Middleware(m))
					group.GET("/hello/:name", hello)
					group.GET("/hook", echo.WrapHandler(hook))
					return e, m
				}})
		})
	}
}

func newEcho() *echo.Echo {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler) // stacks of panics
	return e
}

type key struct{}

// copies passes a copy of the request on, as tracing does.
func copies(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		r := c.Request()
		c.SetRequest(r.WithContext(context.WithValue(r.Context(), key{}, 1)))
		return next(c)
	}
}

func TestClasses(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	e := newEcho()
	e.Pre(middleware.RemoveTrailingSlash())
	e.Use(copies, Middleware(m), middleware.Gzip())
	e.GET("/", hello)
	e.GET("/users/:id", hello)
	e.POST("/users/:id", hello)
	e.Any("/any/*", hello)
	e.Add("LOCK", "/users/:id", hello)
	e.Group("/:tenant").Group("/orders").GET("/:id", hello)
	e.RouteNotFound("/app/*", hello) // as for a single-page application
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "/", "GET /"},
		{"GET", "/users/1", "GET /users/:id"},
		{"GET", "/users/1/", "GET /users/:id"}, // by RemoveTrailingSlash
		{"POST", "/users/1", "POST /users/:id"},
		{"LOCK", "/users/1", "LOCK /users/:id"},
		{"PUT", "/any/a/b", "/any/*"},
		{"GET", "/acme/orders/1", "GET /:tenant/orders/:id"},
		{"GET", "/app/page", "/app/*"},
		{"MADEUP", "/app/page", "/app/*"},
		{"GET", "/acme/nothing", "/"},
		{"DELETE", "/users/1", "/"},
		{"MADEUP", "/users/1", "/"},
	} {
		routercheck.Class(t, e, m, tt.method, tt.url, tt.want)
	}
}

// Around one handler.
func TestRoute(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	e := newEcho()
	e.GET("/users/:id", hello, Middleware(m))
	e.GET("/free", hello)
	routercheck.Class(t, e, m, "GET", "/users/1", "GET /users/:id")
	routercheck.Class(t, e, m, "GET", "/free", "none")
}

// A HEAD request that the handler of GET answers is in the class of GET.
func TestHEAD(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
	e.Use(Middleware(m))
	e.GET("/hello/:name", hello)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("HEAD", "/hello/ada", nil))
	if w.Code != 200 || w.Header().Get("Content-Length") != "11" || w.Body.Len() > 0 {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
	routercheck.Outcome(t, m, "GET /hello/:name", weir.Success)
}

// Config.Class reads the route.
func TestOwnClass(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto,
		Class: func(r *http.Request) string { return r.Host + ": " + r.Pattern }})
	e := newEcho()
	e.Use(Middleware(m))
	e.GET("/users/:id", hello)
	routercheck.Class(t, e, m, "GET", "http://acme/users/1", "acme: GET /users/:id")
}

// echo answers the error of a handler before the request leaves its limit. Outer
// middlewares see the status and the size of each response.
func TestErrors(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	e := newEcho()
	var status int
	var size int64
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			status, size = response(t, c).Status, response(t, c).Size
			return err
		}
	}, Middleware(m))
	e.GET("/busy", func(*echo.Context) error { return echo.NewHTTPError(http.StatusServiceUnavailable, "busy") })
	e.GET("/broken", func(*echo.Context) error { return errors.New("broken") })
	e.GET("/late", func(c *echo.Context) error {
		c.String(http.StatusAccepted, "begun")
		return errors.New("broken")
	})
	e.GET("/fine", func(c *echo.Context) error { return c.String(http.StatusAccepted, "fine") })
	for _, tt := range []struct {
		path   string
		status int
		body   string
		want   weir.Outcome
	}{
		{"/busy", 503, `{"message":"busy"}` + "\n", weir.Dropped},
		{"/broken", 500, `{"message":"Internal Server Error"}` + "\n", weir.Ignored},
		{"/late", 202, "begun", weir.Success},
		{"/fine", 202, "fine", weir.Success},
	} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if w.Code != tt.status || w.Body.String() != tt.body || status != tt.status || size != int64(len(tt.body)) {
			t.Errorf("%s: %d %q, and around it %d, %d bytes", tt.path, w.Code, w.Body, status, size)
		}
		routercheck.Outcome(t, m, "GET "+tt.path, tt.want)
	}
}

// An HTTPErrorHandler of the server's own answers, once.
func TestOwnErrorHandler(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	e := newEcho()
	e.HTTPErrorHandler = func(c *echo.Context, err error) { c.String(http.StatusGatewayTimeout, err.Error()) }
	e.Use(Middleware(m))
	e.GET("/", func(*echo.Context) error { return errors.New("late") })
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 504 || w.Body.String() != "late" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	routercheck.Outcome(t, m, "GET /", weir.Dropped)
}

// If a request is refused, the handler does not run, and outer middlewares see the status.
func TestRefusal(t *testing.T) {
	closed := httplimit.Config{PerClass: func(string) weir.Limiter { return routercheck.Closed() }}
	e := newEcho()
	var status int
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			status = response(t, c).Status
			return err
		}
	}, Middleware(routercheck.Middleware(t, closed)))
	ran := false
	e.GET("/", func(*echo.Context) error { ran = true; return nil })
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 503 || status != 503 || ran {
		t.Errorf("%d, around it %d, ran: %v", w.Code, status, ran)
	}
}

// Outer middlewares may write when the handler has ended, with the request that they
// had, and their hooks run.
func TestOuterMiddlewares(t *testing.T) {
	e := newEcho()
	hooks := 0
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			before := c.Request()
			response(t, c).Before(func() { hooks++ })
			if err := next(c); err != nil {
				return err
			}
			if c.Request() != before || c.Request().Context().Err() != nil {
				t.Error("after the Middleware: another request")
			}
			_, err := c.Response().Write([]byte("bye\n"))
			return err
		}
	}, Middleware(routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto, Deadline: "Timeout"})))
	e.GET("/hello/:name", func(c *echo.Context) error {
		if _, ok := c.Request().Context().Deadline(); !ok {
			t.Error("no deadline")
		}
		if r := response(t, c); r.Committed {
			t.Error("committed before it is written")
		}
		return hello(c)
	})
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/hello/ada", nil)
	r.Header.Set("Timeout", time.Minute.String())
	e.ServeHTTP(w, r)
	if w.Code != 200 || w.Body.String() != "hello, ada\nbye\n" || hooks != 1 {
		t.Errorf("%d %q, %d hooks", w.Code, w.Body, hooks)
	}
}

// response returns echo's own Response.
func response(t *testing.T, c *echo.Context) *echo.Response {
	t.Helper()
	r, err := echo.UnwrapResponse(c.Response())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hello(c *echo.Context) error {
	return c.String(http.StatusOK, "hello, "+c.Param("name")+"\n")
}
