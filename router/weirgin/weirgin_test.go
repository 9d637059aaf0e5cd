package weirgin

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/routercheck"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	gin.DefaultErrorWriter = io.Discard // stacks of panics
	os.Exit(m.Run())
}

func TestRouters(t *testing.T) {
	for name, router := range map[string]func(r *gin.Engine, mw gin.HandlerFunc) gin.IRoutes{
		"Use":    func(r *gin.Engine, mw gin.HandlerFunc) gin.IRoutes { return r.Use(mw) },
		"groups": func(r *gin.Engine, mw gin.HandlerFunc) gin.IRoutes { return r.Group("/", mw).Group("/") },
		"in front of a copy of the request": func(r *gin.Engine, mw gin.HandlerFunc) gin.IRoutes {
			return r.Use(mw, copies, replaces)
		},
	} {
		t.Run(name, func(t *testing.T) {
			routercheck.Run(t, routercheck.Router{Hello: "GET /hello/:name", Hook: "GET /hook", Recovers: true,
				New: func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware) {
					m := routercheck.Middleware(t, cfg)
					engine := gin.New()
					engine.Use(gin.Recovery())
					routes := router(engine, Middleware(m))
					routes.GET("/hello/:name", hello)
					routes.GET("/hook", gin.WrapF(hook))
					return engine, m
				}})
		})
	}
}

type key struct{}

// copies passes a copy of the request on, as tracing does.
func copies(c *gin.Context) {
	c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), key{}, 1))
	c.Next()
}

// replaces puts its own writer in front, as compression does.
func replaces(c *gin.Context) {
	outer := c.Writer
	c.Writer = &own{outer}
	c.Next()
	c.Writer = outer
}

type own struct{ gin.ResponseWriter }

func (w *own) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestClasses(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := gin.New()
	router.HandleMethodNotAllowed = true
	router.GET("/free", hello) // in front of Use
	router.Use(copies, Middleware(m))
	router.GET("/", hello)
	router.GET("/users/:id", hello)
	router.POST("/users/:id", hello)
	router.Any("/any/*rest", hello)
	router.Handle("LOCK", "/users/:id", hello)
	router.Group("/:tenant").Group("/orders").GET("/:id", hello)
	router.NoRoute(func(c *gin.Context) { c.String(http.StatusOK, "a single-page application") })
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "/", "GET /"},
		{"GET", "/users/1", "GET /users/:id"},
		{"POST", "/users/1", "POST /users/:id"},
		{"LOCK", "/users/1", "LOCK /users/:id"},
		{"PUT", "/any/a/b", "PUT /any/*rest"},
		{"GET", "/acme/orders/1", "GET /:tenant/orders/:id"},
		{"GET", "/acme/page", "/"},
		{"DELETE", "/users/1", "/"},
		{"MADEUP", "/users/1", "/"},
		{"GET", "/free", "none"},
	} {
		routercheck.Class(t, router, m, tt.method, tt.url, tt.want)
	}
}

// Around one handler.
func TestRoute(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := gin.New()
	router.GET("/users/:id", Middleware(m), hello)
	routercheck.Class(t, router, m, "GET", "/users/1", "GET /users/:id")
}

// Config.Class reads the route.
func TestOwnClass(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto,
		Class: func(r *http.Request) string { return r.Host + ": " + r.Pattern }})
	router := gin.New()
	router.Use(Middleware(m))
	router.GET("/users/:id", hello)
	routercheck.Class(t, router, m, "GET", "http://acme/users/1", "acme: GET /users/:id")
}

// Outer middlewares see the status and the size of each response, also if gin sends
// the status by itself, or if the handler changes it before it is sent.
func TestStatusAndSize(t *testing.T) {
	m := routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})
	router := gin.New()
	var status, size int
	router.Use(func(c *gin.Context) {
		c.Next()
		status, size = c.Writer.Status(), c.Writer.Size()
	}, Middleware(m))
	router.GET("/aborted", func(c *gin.Context) { c.AbortWithStatus(http.StatusServiceUnavailable) })
	router.GET("/changed", func(c *gin.Context) {
		c.Status(http.StatusOK)
		c.JSON(http.StatusServiceUnavailable, "busy")
	})
	router.GET("/silent", func(c *gin.Context) { c.Status(http.StatusGatewayTimeout) })
	router.GET("/failed", func(c *gin.Context) { c.AbortWithError(http.StatusServiceUnavailable, io.ErrUnexpectedEOF) })
	router.GET("/moved", func(c *gin.Context) { c.Redirect(http.StatusSeeOther, "/fine") })
	router.GET("/fine", func(c *gin.Context) { c.String(http.StatusAccepted, "fine") })
	for _, tt := range []struct {
		path   string
		status int
		body   string
		size   int
		want   weir.Outcome
	}{
		{"/aborted", 503, "", 0, weir.Dropped},
		{"/changed", 503, `"busy"`, 6, weir.Dropped},
		{"/silent", 504, "", -1, weir.Dropped},
		{"/failed", 503, "", 0, weir.Dropped},
		{"/moved", 303, "<a href=\"/fine\">See Other</a>.\n\n", 32, weir.Success},
		{"/fine", 202, "fine", 4, weir.Success},
	} {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if w.Code != tt.status || w.Body.String() != tt.body || status != tt.status || size != tt.size {
			t.Errorf("%s: %d %q, and around it %d, %d bytes", tt.path, w.Code, w.Body, status, size)
		}
		routercheck.Outcome(t, m, "GET "+tt.path, tt.want)
	}
}

// gin answers a request that no route matches after its middlewares.
func TestNoRoute(t *testing.T) {
	router := gin.New()
	router.HandleMethodNotAllowed = true
	router.Use(Middleware(routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})))
	router.GET("/hello/:name", hello)
	for _, tt := range []struct {
		method string
		path   string
		status int
		body   string
	}{
		{"GET", "/nothing", 404, "404 page not found"},
		{"POST", "/hello/ada", 405, "405 method not allowed"},
	} {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.status || w.Body.String() != tt.body {
			t.Errorf("%s %s: %d %q", tt.method, tt.path, w.Code, w.Body)
		}
	}
}

// A handler that reads its errors in an outer middleware, as gin's users do, answers
// after m.
func TestOuterErrorHandler(t *testing.T) {
	router := gin.New()
	router.Use(func(c *gin.Context) {
		c.Next()
		if len(c.Errors) > 0 && !c.Writer.Written() {
			c.JSON(http.StatusBadGateway, c.Errors.Last().Error())
		}
	}, Middleware(routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto})))
	router.GET("/", func(c *gin.Context) { c.Error(io.ErrUnexpectedEOF) })
	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 502 || w.Body.String() != `"unexpected EOF"` {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// If a request is refused, no later handler runs, and outer middlewares see the status.
func TestRefusalAborts(t *testing.T) {
	closed := httplimit.Config{PerClass: func(string) weir.Limiter { return routercheck.Closed() }}
	router := gin.New()
	var status int
	var aborted bool
	router.Use(func(c *gin.Context) {
		c.Next()
		status, aborted = c.Writer.Status(), c.IsAborted()
	}, Middleware(routercheck.Middleware(t, closed)))
	ran := false
	router.GET("/", func(*gin.Context) { ran = true }, func(*gin.Context) { ran = true })
	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 503 || status != 503 || !aborted || ran || !strings.Contains(w.Body.String(), `"status":503`) {
		t.Errorf("%d %s, around it %d, aborted: %v, ran: %v", w.Code, w.Body, status, aborted, ran)
	}
}

// Outer middlewares may write when the handler has ended, with the request that they had.
func TestOuterMiddlewares(t *testing.T) {
	router := gin.New()
	router.Use(func(c *gin.Context) {
		before := c.Request
		c.Next()
		if c.Request != before || c.Request.Context().Err() != nil {
			t.Error("after the Middleware: another request")
		}
		c.String(http.StatusOK, "bye\n")
	}, Middleware(routercheck.Middleware(t, httplimit.Config{PerClass: httplimit.Auto, Deadline: "Timeout"})))
	router.GET("/hello/:name", func(c *gin.Context) {
		if _, ok := c.Request.Context().Deadline(); !ok {
			t.Error("no deadline")
		}
		hello(c)
	})
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/hello/ada", nil)
	r.Header.Set("Timeout", time.Minute.String())
	router.ServeHTTP(w, r)
	if w.Code != 200 || w.Body.String() != "hello, ada\nbye\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func hello(c *gin.Context) {
	c.String(http.StatusOK, "hello, %s\n", c.Param("name"))
}
