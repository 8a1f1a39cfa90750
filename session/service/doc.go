// Package service answers requests for the session service over NATS, for a
// host that decides. Any number of nodes answer beside each other: a request
// goes to one of them, and its repeat to any. The table of
// operations (package operation) says for each how a repeat is recognised.
//
// Requests are hostile: they are bounded in size, decoded strictly, and the
// names in them are checked before they come near a subject. What an error
// that the table of package api does not have says stays in this node's log.
package service
