/** The YCSB binding for Nova. */
package site.ycsb.db.nova;
