// Package service answers requests for the session service over NATS, with a host. Any number of nodes answer at the
// same time: a request goes to one of them, and its repeat to any. The table of operations (package operation) says
// for each how a repeat is recognised.
//
// Requests are hostile input: they are limited in size, decoded strictly, and their names are checked before they
// become part of a subject. The text of an error that the table of package api does not have stays in this node's
// log.
package service
