// Package convert puts what events say into the types of the service: usage, outcomes, errors, arguments and messages.
package convert
