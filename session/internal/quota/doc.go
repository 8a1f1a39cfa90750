// Package quota counts the open sessions of each owner, and refuses a session above the limit.
package quota
