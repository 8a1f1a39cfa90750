// Package httpbody has the JSON of requests and responses of the HTTP API as a client in Go declares it. Its types are
// apart from those of the server, so a field that the server renames fails the tests of clients.
package httpbody
