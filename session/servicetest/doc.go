// Package servicetest is what every implementation of the session service must
// pass: the host in its process, and the client from afar. Expected values are
// the host specification's.
package servicetest
