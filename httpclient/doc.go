// Package httpclient sends HTTP requests no faster than servers can take them.
//
// A client that is rate limited has to read Retry-After and RateLimit fields,
// delay its requests, and retry some of them without making an overload worse. A
// [Transport] does that for every request of an http.Client:
//
//	t, err := httpclient.New(httpclient.Config{})
//	...
//	client := &http.Client{Transport: t}
//
// The server side is package httplimit.
package httpclient
