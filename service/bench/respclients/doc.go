// Package respclients holds tests only: Go clients of Redis call CL.THROTTLE of weir serve
// with their default options. They are here so that their modules do not burden the service.
package respclients
